package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"qdrouter/config"
)

const root = "../../.."

// The files in the repository are what docgen writes.
func TestDocumentsAreUpToDate(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not up to date (%v): run make docs", name, err)
		}
	}
	for _, folder := range folders {
		present, err := filepath.Glob(filepath.Join(root, folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range present {
			if name := folder + "/" + filepath.Base(path); files[name] == "" {
				t.Errorf("%s has no source any more: run make docs", name)
			}
		}
	}
}

func TestEveryAttributeHasARow(t *testing.T) {
	pages := reference()
	for _, typ := range config.Types() {
		page := pages["docs/reference/"+pageName(typ)]
		for _, a := range typ.AllAttributes() {
			if strings.Count(page, "\n| `"+a.Name+"` |") < 1 {
				t.Errorf("%s: no row for %s", pageName(typ), a.Name)
			}
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "|") && strings.Count(line, "|")-strings.Count(line, `\|`) != 8 &&
				strings.Count(line, "|")-strings.Count(line, `\|`) != 4 {
				t.Errorf("%s: a row of other width: %s", pageName(typ), line)
			}
		}
	}
}

func TestEveryOperationHasARow(t *testing.T) {
	page := operations()
	for _, typ := range config.Types() {
		for _, op := range typ.Operations {
			if !strings.Contains(page, "\n| "+op+" |") {
				t.Errorf("no row for %s of %s", op, typ.Name)
			}
		}
	}
}

func TestRoffEscapes(t *testing.T) {
	for text, want := range map[string]string{
		`a\b`:     `a\eb`,
		"--help":  `\-\-help`,
		".TH x":   `\&.TH x`,
		"'quoted": `\&'quoted`,
		"a.b":     "a.b",
	} {
		if got := escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Options of the usage are found with their arguments and all their lines.
func TestRouterOptions(t *testing.T) {
	got := routerOptions("Usage: qdrouterd [OPTIONS]\n\n  -c, --config=PATH            Read it from PATH\n" +
		"                               (default /x)\n  -d, --daemon                 Run\n      --check                  Check\n")
	want := []routerOption{
		{"-c, --config=PATH", "Read it from PATH (default /x)"}, {"-d, --daemon", "Run"}, {"--check", "Check"},
	}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}
