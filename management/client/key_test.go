package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The keys in testdata are one key in the forms in which OpenSSL 3 writes it,
// encrypted with the password "secret" but for key-plain.pem.
func TestLoadCertificate(t *testing.T) {
	for _, tt := range []struct {
		key, password string
		fails         string // part of the error
	}{
		{"key-plain.pem", "", ""},
		{"key-aes256-sha256.pem", "secret", ""},
		{"key-aes128-sha512.pem", "secret", ""},
		{"key-des3-sha1.pem", "secret", ""},
		{"key-rfc1423.pem", "secret", ""},
		{"key-aes256-sha256.pem", "wrong", "private key: "},
		{"key-rfc1423.pem", "wrong", "private key: "},
		{"key-scrypt.pem", "secret", "key derivation 1.3.6.1.4.1.11591.4.11 is not supported"},
		{"key-pbes1.pem", "secret", "encryption 1.2.840.113549.1.12.1.3 is not supported"},
		{"key-certificate.pem", "", "found a certificate rather than a key"},
	} {
		_, err := loadCertificate(filepath.Join("testdata", "key-certificate.pem"), filepath.Join("testdata", tt.key), tt.password)
		switch {
		case tt.fails == "" && err != nil:
			t.Errorf("%s: %v", tt.key, err)
		case tt.fails != "":
			wantError(t, err, "SSLException", tt.fails)
		}
	}
}

func TestKeyBesideTheCertificate(t *testing.T) {
	var both []byte
	for _, name := range []string{"key-certificate.pem", "key-aes256-sha256.pem"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadCertificate(file, "", "secret"); err != nil {
		t.Error(err)
	}
	_, err := loadCertificate(file, "", "wrong")
	wantError(t, err, "SSLException", file)
	_, err = loadCertificate("nosuchfile", "", "")
	wantError(t, err, "FileNotFoundError", "nosuchfile")
}

// Whatever stands in a key file, it is an error and no panic.
func TestDecryptPKCS8OfDamagedKeys(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "key-des3-sha1.pem"))
	if err != nil {
		t.Fatal(err)
	}
	good, err := decryptKeys(text, "secret")
	if err != nil || !strings.Contains(string(good), "BEGIN PRIVATE KEY") {
		t.Fatalf("%s, %v", good, err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := 1; i < len(lines)-1; i++ {
		for j := range lines[i] {
			damaged := append([]string(nil), lines...)
			b := []byte(damaged[i])
			b[j] = 'A' + (b[j]+7)%26
			damaged[i] = string(b)
			if _, err := decryptKeys([]byte(strings.Join(damaged, "\n")), "secret"); err != nil {
				continue
			}
		}
	}
}
