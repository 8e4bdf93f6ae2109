package security

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// EnvSASLPath is the environment variable that names the directory of the SASL
// configuration when saslConfigDir is absent (CFG A29).
const EnvSASLPath = "PN_SASL_CONFIG_PATH"

// systemSASLDirs are where the configuration is looked for when nobody names a
// directory.
var systemSASLDirs = []string{"/etc/sasl2", "/etc/sasl", "/usr/lib/sasl2", "/usr/lib64/sasl2"}

// systemSASLDB is where saslpasswd2 keeps names when it is given no file.
const systemSASLDB = "/etc/sasldb2"

// SASL is the process-wide SASL configuration (CFG M14).
type SASL struct {
	path     string   // of the file read; empty when there is none
	mechList []string // of mech_list, upper case; nil when the key is absent
	users    *users   // nil when no password can be checked
}

// LoadSASL reads <dir>/<name>.conf. An empty dir means the system's directories.
// Without a file only what needs no credentials is offered. The warnings are for
// the log.
func LoadSASL(dir, name string) (s *SASL, warnings []string, err error) {
	path, data, err := findSASLConf(dir, name)
	if err != nil {
		return nil, nil, err
	}
	if path == "" {
		if dir != "" {
			warnings = append(warnings, fmt.Sprintf("SASL configuration %s not found: no password can be checked",
				filepath.Join(dir, name+".conf")))
		}
		return &SASL{}, warnings, nil
	}
	keys := parseSASLConf(string(data))
	s = &SASL{path: path}
	if list, ok := keys["mech_list"]; ok {
		s.mechList = append([]string{}, strings.Fields(strings.ToUpper(list))...)
		for _, m := range s.mechList {
			if !supported(m) {
				warnings = append(warnings, fmt.Sprintf("SASL mechanism %s in %s is not supported and not offered", m, path))
			}
		}
	}

	var stores []store
	switch check, plugin := keys["pwcheck_method"], keys["auxprop_plugin"]; {
	case check != "" && check != "auxprop":
		warnings = append(warnings, fmt.Sprintf("pwcheck_method %s in %s is not supported: PLAIN is not offered for it", check, path))
	case plugin != "" && plugin != "sasldb":
		warnings = append(warnings, fmt.Sprintf("auxprop_plugin %s in %s is not supported: PLAIN is not offered for it", plugin, path))
	default:
		db := keys["sasldb_path"]
		if db == "" && keys["credentials_file"] == "" {
			db = systemSASLDB
		}
		if db != "" {
			stores = append(stores, newSASLDB(db, localRealms()))
		}
	}
	if file := keys["credentials_file"]; file != "" {
		stores = append(stores, newCredentialsFile(file))
	}
	if len(stores) == 0 {
		return s, warnings, nil
	}
	s.users = &users{stores: stores}
	if err := s.users.check(); err != nil {
		warnings = append(warnings, fmt.Sprintf("SASL credentials: %v", err))
	}
	return s, warnings, nil
}

// findSASLConf returns the first configuration file there is, path "" if none.
func findSASLConf(dir, name string) (path string, data []byte, err error) {
	dirs := systemSASLDirs
	if dir != "" {
		dirs = []string{dir}
	}
	for _, d := range dirs {
		path := filepath.Join(d, name+".conf")
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
			return path, data, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", nil, fmt.Errorf("SASL configuration: %w", err)
		}
	}
	return "", nil, nil
}

// parseSASLConf reads lines `key: value`. Lines that are none, blank ones and
// comments are skipped, as are keys nobody asks for (CFG M14). The last of
// several equal keys holds.
func parseSASLConf(text string) map[string]string {
	keys := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		keys[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return keys
}

// localRealms are the realms of a user name without `@`: the host's name, and
// its full name, which is what saslpasswd2 takes where there is one (CFG M7).
func localRealms() []string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return []string{"localhost"}
	}
	realms := []string{host}
	if strings.Contains(host, ".") {
		return realms
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	full, err := net.DefaultResolver.LookupCNAME(ctx, host)
	full = strings.TrimSuffix(full, ".")
	if err == nil && full != host && strings.HasPrefix(full, host+".") {
		realms = append(realms, full)
	}
	return realms
}
