package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// PasswordKind tells whose password it is, for the prefixes differ (CFG S4).
type PasswordKind int

// The kinds of passwords.
const (
	SSLProfilePassword PasswordKind = iota
	ConnectorPassword               // here "literal:" is no prefix
)

// maxPassword is how many octets of a password file count (CFG S4).
const maxPassword = 199

// ResolvePassword returns the password that a configured value stands for: itself,
// or what env:NAME, file:PATH, pass:TEXT or literal:TEXT name (CFG S4, S6). The
// error does not tell the value, except for the name of a variable or a file.
func ResolvePassword(kind PasswordKind, value string) (password string, warnings []Warning, err error) {
	if name, ok := strings.CutPrefix(value, "env:"); ok {
		name = strings.TrimLeft(name, " ")
		if password, ok := os.LookupEnv(name); ok {
			return password, nil, nil
		}
		return "", nil, &passwordError{"Failed to find a password in the environment variable"}
	}
	if path, ok := strings.CutPrefix(value, "file:"); ok {
		password, err := readPassword(path)
		return password, nil, err
	}
	if text, ok := strings.CutPrefix(value, "literal:"); ok && kind == SSLProfilePassword {
		value = text
	} else {
		value = strings.TrimPrefix(value, "pass:")
	}
	return value, []Warning{{"CONN_MGR", "warning", "It is unsafe to provide plain text passwords in the config file"}}, nil
}

// A passwordError has the text of 1.19.
type passwordError struct{ text string }

func (e *passwordError) Error() string { return e.text }

// readPassword reads the first line of a password file.
func readPassword(path string) (string, error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var line string
		line, err = bufio.NewReader(io.LimitReader(f, maxPassword)).ReadString('\n')
		if err == nil || errors.Is(err, io.EOF) {
			return strings.TrimRight(line, "\r\n"), nil
		}
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return "", &passwordError{fmt.Sprintf("Unable to open password file %s, error: %v", path, err)}
}

// Password returns the resolved password of an sslProfile or a connector, "" when it
// has none (CFG S4 to S6). Load has tried it once and refused the file if there was
// an error; the warnings are to be logged by who uses the password.
func (e *Entity) Password() (password string, warnings []Warning, err error) {
	switch {
	case e.Type.Name == "connector" && e.Has("saslPassword"):
		return ResolvePassword(ConnectorPassword, e.Str("saslPassword"))
	case e.Type.Name == "sslProfile" && e.Has("password"):
		return ResolvePassword(SSLProfilePassword, e.Str("password"))
	case e.Type.Name == "sslProfile" && e.Has("passwordFile"):
		warning := Warning{"CONN_MGR", "warning", "Attribute passwordFile of entity sslProfile has been deprecated. " +
			"Use password field with the file: prefix instead."}
		password, err := readPassword(e.Str("passwordFile"))
		return password, []Warning{warning}, err
	}
	return "", nil, nil
}
