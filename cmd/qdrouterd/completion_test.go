package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCompletionScripts(t *testing.T) {
	options := new(command).options()
	for _, shell := range shells {
		script, err := completionScript(shell, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range options {
			if !strings.Contains(script, o.long) {
				t.Errorf("%s: no option %s", shell, o.long)
			}
			if shell != "bash" && !strings.Contains(script, o.about()) || o.about() == o.long {
				t.Errorf("%s: option %s is not explained", shell, o.long)
			}
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		check := exec.Command(shell, "-n")
		check.Stdin = strings.NewReader(script)
		if said, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, said)
		}
	}
	if _, err := completionScript("csh", options); err == nil {
		t.Error("csh: no error")
	}
}

// What bash is offered for the last of some words.
func TestBashCompletes(t *testing.T) {
	script, err := completionScript("bash", new(command).options())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, want string }{
		{"qdrouterd --c", "--config --check --completion"},
		{"qdrouterd --completion z", "zsh"},
		{"qdrouterd --completion = f", "fish"},
		{"qdrouterd -d --pid", "--pidfile"},
		{"qdrouterd -c main_t", "main_test.go"},
	} {
		words := strings.Fields(tt.words)
		cmd := exec.Command("bash", append([]string{"-c", script + `
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qdrouterd; echo "${COMPREPLY[*]}"`, "bash"}, words...)...)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.words, got, err, tt.want)
		}
	}
}
