package tests

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"qdrouter/tests/internal/rig"
)

// A rule says what the packages of one folder may import, besides the
// standard library and each other. Folders end in no slash; a folder includes
// those below it unless they have a rule of their own.
type rule struct {
	folder  string
	imports []string // folders of this module
	modules []string // of others
	pure    bool     // has no net, reads no clock, starts no goroutine
}

// rules is the table of ARCHITECTURE.md.
var rules = []rule{
	{folder: "amqp", pure: true},
	{folder: "router/linkstate", pure: true},
	{folder: "router", imports: []string{"amqp", "router/linkstate"}},
	{folder: "linkroute", imports: []string{"amqp", "router"}},
	{folder: "config", modules: []string{"gopkg.in/yaml.v3"}, pure: true},
	{folder: "logging", modules: []string{"go.uber.org/zap"}},
	{folder: "security", imports: []string{"amqp", "config"}},
	{folder: "transport", imports: []string{"amqp", "router", "security"}},
	{folder: "management/jsontext", pure: true},
	{folder: "management", imports: []string{"amqp", "config", "router", "linkroute", "management/jsontext"}},
	// What the tools are made of.
	{folder: "management/client", imports: []string{"amqp", "config", "management/jsontext"},
		modules: []string{"github.com/Azure/go-amqp", "github.com/spf13/cobra", "github.com/spf13/pflag"}},
	{folder: "server", imports: []string{"amqp", "config", "linkroute", "logging", "management", "router", "router/linkstate", "security", "transport"}},
	{folder: "cmd", imports: []string{"config", "logging", "server", "management/client"}},
	{folder: "examples", modules: []string{"github.com/Azure/go-amqp"}},
	{folder: "tests", imports: []string{"amqp", "config", "management/client", "router", "server"}, modules: []string{"github.com/Azure/go-amqp"}},
}

// ruleOf returns the rule of the longest folder that holds pkg, a path below
// the module's.
func ruleOf(pkg string) (rule, bool) {
	var best rule
	found := false
	for _, r := range rules {
		if (pkg == r.folder || strings.HasPrefix(pkg, r.folder+"/")) && len(r.folder) >= len(best.folder) {
			best, found = r, true
		}
	}
	return best, found
}

const module = "qdrouter"

// goPackage is what the guards use of "go list -json".
type goPackage struct {
	Dir, ImportPath string
	Imports, Deps   []string
	GoFiles         []string // without those of tests
}

// path returns the package's path below the module's.
func (p goPackage) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// packages lists the packages of the module.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Dir = rig.Root()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// The import arrows are those of the architecture.
func TestImportsAreThoseOfTheArchitecture(t *testing.T) {
	for _, p := range packages(t) {
		r, ok := ruleOf(p.path())
		if !ok {
			t.Errorf("%s has no row in the table of what may import what", p.path())
			continue
		}
		for _, imp := range p.Imports {
			if why := forbidden(r, imp); why != "" {
				t.Errorf("%s imports %s: %s", p.path(), imp, why)
			}
		}
	}
}

// forbidden says why a package under rule r may not import imp, or nothing.
func forbidden(r rule, imp string) string {
	if own, ok := strings.CutPrefix(imp, module+"/"); ok {
		to, ok := ruleOf(own)
		switch {
		case !ok:
			return "not in the table"
		case to.folder == r.folder || slices.Contains(r.imports, to.folder):
			return ""
		}
		return "the table has no arrow from " + r.folder + " to " + to.folder
	}
	first, _, _ := strings.Cut(imp, "/")
	if !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, m := range r.modules {
		if imp == m || strings.HasPrefix(imp, m+"/") {
			return ""
		}
	}
	return "the table has no such module for " + r.folder
}

// What is to be pure has no network, not even behind its imports, reads no
// clock and starts no goroutine.
func TestPurePackages(t *testing.T) {
	for _, p := range packages(t) {
		r, _ := ruleOf(p.path())
		if !r.pure {
			continue
		}
		if slices.Contains(p.Deps, "net") {
			t.Errorf("%s depends on net", p.path())
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			clock := importName(file, "time")
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a go statement in a pure package", fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if id, ok := n.X.(*ast.Ident); ok && clock != "" && id.Name == clock && readsClock[n.Sel.Name] {
						t.Errorf("%s: time.%s in a pure package", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// readsClock has the names of package time that know what time it is.
var readsClock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true,
	"Sleep": true, "Tick": true, "NewTimer": true, "NewTicker": true,
}

// importName returns the name under which file has imported path, or nothing.
func importName(file *ast.File, path string) string {
	for _, imp := range file.Imports {
		if strings.Trim(imp.Path.Value, `"`) != path {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}

// Every package says what it is for, and every exported name of the packages
// others import has a comment.
func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		d, err := doc.NewFromFiles(fset, files, p.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		if d.Doc == "" {
			t.Errorf("package %s has no comment", p.path())
		}
		if d.Name == "main" {
			continue
		}
		for _, f := range d.Funcs {
			undocumented(t, p, f.Name, f.Doc)
		}
		for _, typ := range d.Types {
			undocumented(t, p, typ.Name, typ.Doc)
			for _, f := range typ.Funcs {
				undocumented(t, p, f.Name, f.Doc)
			}
			for _, m := range typ.Methods {
				if !common[m.Name] {
					undocumented(t, p, typ.Name+"."+m.Name, m.Doc)
				}
			}
		}
	}
}

// common has the methods whose name says all there is to say.
var common = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Len": true, "Less": true, "Swap": true}

func undocumented(t *testing.T, p goPackage, name, comment string) {
	t.Helper()
	if comment == "" {
		t.Errorf("%s: %s has no comment", p.path(), name)
	}
}
