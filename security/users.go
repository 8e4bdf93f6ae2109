package security

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A secret is what is known of one user: the password, or a SCRAM verifier made
// from it.
type secret struct {
	password string
	verifier *verifier // nil: the password itself is known
}

// A verifier is what a server keeps for SCRAM (RFC 5802 §3), written as in
// RFC 5803: SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>, the last
// three in base64. It cannot be turned back into the password.
type verifier struct {
	hash       func() hash.Hash
	iterations int
	salt       []byte
	storedKey  []byte
}

// maxIterations bounds the work that one log-in may cost.
const maxIterations = 1 << 20

var scramHashes = map[string]func() hash.Hash{
	"SCRAM-SHA-1":   sha1.New,
	"SCRAM-SHA-256": sha256.New,
	"SCRAM-SHA-512": sha512.New,
}

// parseSecret tells a verifier from a password by its first word.
func parseSecret(text string) (secret, error) {
	name, rest, ok := strings.Cut(text, "$")
	newHash := scramHashes[name]
	if !ok || newHash == nil {
		return secret{password: text}, nil
	}
	bad := fmt.Errorf("malformed %s verifier", name)
	work, keys, ok := strings.Cut(rest, "$")
	count, salt64, ok2 := strings.Cut(work, ":")
	stored64, server64, ok3 := strings.Cut(keys, ":")
	iterations, err := strconv.Atoi(count)
	if !ok || !ok2 || !ok3 || err != nil || iterations < 1 || iterations > maxIterations {
		return secret{}, bad
	}
	salt, err1 := base64.StdEncoding.DecodeString(salt64)
	stored, err2 := base64.StdEncoding.DecodeString(stored64)
	server, err3 := base64.StdEncoding.DecodeString(server64)
	size := newHash().Size()
	if err1 != nil || err2 != nil || err3 != nil || len(salt) == 0 || len(stored) != size || len(server) != size {
		return secret{}, bad
	}
	return secret{verifier: &verifier{hash: newHash, iterations: iterations, salt: salt, storedKey: stored}}, nil
}

// matches compares in constant time, and spends cost rounds of key derivation
// whatever the secret is.
func (s secret) matches(password string, cost int) bool {
	if s.verifier == nil {
		burn(password, cost)
		// Hashing hides the length, which ConstantTimeCompare alone does not.
		want, got := sha256.Sum256([]byte(s.password)), sha256.Sum256([]byte(password))
		return subtle.ConstantTimeCompare(want[:], got[:]) == 1
	}
	v := s.verifier
	burn(password, cost-v.iterations)
	salted, err := pbkdf2.Key(v.hash, password, v.salt, v.iterations, v.hash().Size())
	if err != nil {
		return false
	}
	mac := hmac.New(v.hash, salted)
	mac.Write([]byte("Client Key"))
	h := v.hash()
	h.Write(mac.Sum(nil))
	return subtle.ConstantTimeCompare(h.Sum(nil), v.storedKey) == 1
}

func burn(password string, rounds int) {
	if rounds > 0 {
		_, _ = pbkdf2.Key(sha256.New, password, []byte("qdrouter"), rounds, sha256.Size)
	}
}

// A table is one credentials file as read.
type table struct {
	secrets map[string]secret
	cost    int // most iterations of any verifier in it
}

// A store is where secrets of users are kept.
type store interface {
	// find returns the user's secret and the store's cost. An error means that
	// the store cannot be read, and then nobody in it can be verified.
	find(user string) (s secret, found bool, cost int, err error)
}

// users asks several stores for one user.
type users struct{ stores []store }

var errNoMatch = errors.New("user not found or wrong password")

// verify is the sasl.Verifier of PLAIN.
func (u *users) verify(user, password string) error {
	var known secret
	var found bool
	var most int
	var errs []error
	for _, st := range u.stores {
		s, ok, cost, err := st.find(user)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		most = max(most, cost)
		if ok && !found {
			known, found = s, true
		}
	}
	if known.matches(password, most) && found {
		return nil
	}
	return errors.Join(append(errs, errNoMatch)...)
}

// check says what is wrong with the stores at start.
func (u *users) check() error {
	var errs []error
	for _, st := range u.stores {
		if _, _, _, err := st.find(""); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// A file is a credentials file that is read again when it has changed.
type file struct {
	path  string
	parse func([]byte) (table, error)

	mu    sync.Mutex
	table table
	size  int64
	mtime time.Time
	id    os.FileInfo // tells a file put in the place of the old one
}

// load returns the contents as they are now. What cannot be read is an error,
// not the state before: a removed user must not come back by a broken file.
func (f *file) load() (table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		f.id = nil
		return table{}, err
	}
	if f.id != nil && os.SameFile(f.id, info) && f.size == info.Size() && f.mtime.Equal(info.ModTime()) {
		return f.table, nil
	}
	f.id = nil
	data, err := os.ReadFile(f.path)
	if err != nil {
		return table{}, err
	}
	t, err := f.parse(data)
	if err != nil {
		return table{}, fmt.Errorf("%s: %w", f.path, err)
	}
	f.table, f.id, f.size, f.mtime = t, info, info.Size(), info.ModTime()
	return t, nil
}

// sasldb is a store in the format of Cyrus SASL (CFG M15).
type sasldb struct {
	file
	realms []string // of names without `@`
}

func newSASLDB(path string, realms []string) *sasldb {
	return &sasldb{file: file{path: path, parse: parseSASLDB}, realms: realms}
}

func (d *sasldb) find(user string) (secret, bool, int, error) {
	t, err := d.load()
	if err != nil {
		return secret{}, false, 0, err
	}
	name, realm, ok := strings.Cut(user, "@") // CFG M7
	if ok {
		s, ok := t.secrets[name+"\x00"+realm]
		return s, ok, t.cost, nil
	}
	for _, realm := range d.realms {
		if s, ok := t.secrets[name+"\x00"+realm]; ok {
			return s, true, t.cost, nil
		}
	}
	return secret{}, false, t.cost, nil
}

// parseSASLDB keeps the clear-text passwords, under user NUL realm.
func parseSASLDB(data []byte) (table, error) {
	t := table{secrets: make(map[string]secret)}
	err := readHash(data, func(key, value []byte) {
		name, ok := strings.CutSuffix(string(key), "\x00userPassword")
		if ok && strings.Count(name, "\x00") == 1 && len(value) > 0 {
			t.secrets[name] = secret{password: string(value)}
		}
	})
	return t, err
}

// credentialsFile is a store in lines `user[@realm]:password` or
// `user[@realm]:verifier` (CFG M16). Blank lines and lines that start with `#`
// are skipped; blanks belong to the password.
type credentialsFile struct{ file }

func newCredentialsFile(path string) *credentialsFile {
	return &credentialsFile{file{path: path, parse: parseCredentials}}
}

func (c *credentialsFile) find(user string) (secret, bool, int, error) {
	t, err := c.load()
	if err != nil {
		return secret{}, false, 0, err
	}
	s, ok := t.secrets[user]
	return s, ok, t.cost, nil
}

func parseCredentials(data []byte) (table, error) {
	t := table{secrets: make(map[string]secret)}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		user, rest, ok := strings.Cut(text, ":")
		if !ok || user == "" || rest == "" {
			return table{}, fmt.Errorf("line %d: want user:password", n)
		}
		if _, twice := t.secrets[user]; twice {
			return table{}, fmt.Errorf("line %d: user %s is listed twice", n, user)
		}
		s, err := parseSecret(rest)
		if err != nil {
			return table{}, fmt.Errorf("line %d: %w", n, err)
		}
		if s.verifier != nil {
			t.cost = max(t.cost, s.verifier.iterations)
		}
		t.secrets[user] = s
	}
	return t, nil
}
