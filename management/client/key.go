package client

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"os"
)

// loadCertificate reads a certificate and its key, which may be encrypted. With
// no file for the key it is looked for beside the certificate.
func loadCertificate(certFile, keyFile, password string) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM := certPEM
	if keyFile == "" {
		keyFile = certFile
	} else if keyPEM, err = os.ReadFile(keyFile); err != nil {
		return tls.Certificate{}, err
	}
	if keyPEM, err = decryptKeys(keyPEM, password); err != nil {
		return tls.Certificate{}, Failf(badCertificate, "%s: %w", keyFile, err)
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, Failf(badCertificate, "%s: %w", certFile, err)
	}
	return certificate, nil
}

// decryptKeys returns the PEM blocks of data with the encrypted ones decrypted.
func decryptKeys(data []byte, password string) ([]byte, error) {
	var plain []byte
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return plain, nil
		}
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			block.Type = "PRIVATE KEY"
			block.Bytes, err = decryptPKCS8(block.Bytes, password)
		case block.Headers["DEK-Info"] != "":
			// The form of RFC 1423 is weak; old installations still have it.
			block.Bytes, err = x509.DecryptPEMBlock(block, []byte(password)) //lint:ignore SA1019 see above
			block.Headers = nil
		}
		if err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
		plain = append(plain, pem.EncodeToMemory(block)...)
	}
}

var errWrongPassword = errors.New("wrong password")

// Structures of PKCS #8 (RFC 5958 §3) and PKCS #5 (RFC 8018 appendix A).
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct {
		KeyDerivation pkix.AlgorithmIdentifier
		Encryption    pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// ciphers are the encryption schemes of RFC 8018 appendix B.2 that OpenSSL uses.
var ciphers = []struct {
	oid    asn1.ObjectIdentifier
	keyLen int
	block  func(key []byte) (cipher.Block, error)
}{
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}, 24, des.NewTripleDESCipher},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, 16, aes.NewCipher},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 22}, 24, aes.NewCipher},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, 32, aes.NewCipher},
}

// prfs are the pseudorandom functions of RFC 8018 appendix B.1.2.
var prfs = []struct {
	oid  asn1.ObjectIdentifier
	hash func() hash.Hash
}{
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 7}, sha1.New},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 8}, sha256.New224},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, sha256.New},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 10}, sha512.New384},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 11}, sha512.New},
}

// maxIterations bounds the work that a key file can ask for.
const maxIterations = 10_000_000

// decryptPKCS8 decrypts a private key in the form PBES2 of RFC 8018 §6.2, the
// one that OpenSSL has written since its release 1.1.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var key encryptedKey
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return nil, err
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("encryption %v is not supported", key.Algorithm.Algorithm)
	}
	var params pbes2Params
	if _, err := asn1.Unmarshal(key.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if !params.KeyDerivation.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("key derivation %v is not supported", params.KeyDerivation.Algorithm)
	}
	var kdf pbkdf2Params
	if _, err := asn1.Unmarshal(params.KeyDerivation.Parameters.FullBytes, &kdf); err != nil {
		return nil, err
	}
	if kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, fmt.Errorf("%d iterations are not supported", kdf.Iterations)
	}
	if kdf.PRF.Algorithm == nil {
		kdf.PRF.Algorithm = prfs[0].oid // the default of the standard
	}
	var iv []byte
	if _, err := asn1.Unmarshal(params.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	for _, c := range ciphers {
		if !c.oid.Equal(params.Encryption.Algorithm) {
			continue
		}
		for _, p := range prfs {
			if !p.oid.Equal(kdf.PRF.Algorithm) {
				continue
			}
			secret, err := pbkdf2.Key(p.hash, password, kdf.Salt, kdf.Iterations, c.keyLen)
			if err != nil {
				return nil, err
			}
			block, err := c.block(secret)
			if err != nil {
				return nil, err
			}
			return decryptCBC(block, iv, key.Data)
		}
	}
	return nil, fmt.Errorf("cipher %v with %v is not supported", params.Encryption.Algorithm, kdf.PRF.Algorithm)
}

// decryptCBC decrypts data and takes off the padding of RFC 8018 §6.1.1. That it
// comes out right is the only sign of the right password.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("malformed encrypted key")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > size {
		return nil, errWrongPassword
	}
	for _, b := range plain[len(plain)-pad:] {
		if int(b) != pad {
			return nil, errWrongPassword
		}
	}
	return plain[:len(plain)-pad], nil
}
