// Command docgen writes the reference pages of docs/reference and the man pages of
// docs/man. They come from the schema in
// package config, from the command lines in management/client/tool, and from what
// qdrouterd prints for --help. Run it from the root of the repository, as "make
// docs" does; a test fails when what it would write is not what is there.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// folders are those whose files all come from here.
var folders = []string{"docs/reference", "docs/man"}

// write replaces the folders below root.
func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.RemoveAll(filepath.Join(root, folder)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the text of every file by its path below root.
func generate(root string) (map[string]string, error) {
	help := exec.Command("go", "run", "./cmd/qdrouterd", "--help")
	help.Dir = root
	help.Stderr = os.Stderr
	usage, err := help.Output()
	if err != nil {
		return nil, fmt.Errorf("qdrouterd --help: %w", err)
	}
	files := reference()
	for name, page := range manPages(string(usage)) {
		files["docs/man/"+name] = page
	}
	return files, nil
}
