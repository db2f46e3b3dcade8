package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
)

// TestPackageComments_showCodeThatCompiles type-checks the snippets in the package comments of public packages. A
// snippet may use variables and functions that it does not declare, which stand for a reader's own.
func TestPackageComments_showCodeThatCompiles(t *testing.T) {
	imports := exported(t)
	checked := 0
	for path, dir := range publicPackages(t) {
		for i, code := range snippets(t, dir) {
			checked++
			assert.NoError(t, imports.check(path, code), "%s, snippet %d:\n%s", path, i+1, code)
		}
	}
	assert.Greater(t, checked, 15)
}

func TestCheck_findsMistakes(t *testing.T) {
	imports := exported(t)
	for code, want := range map[string]string{
		"b := bridge.New(nil)\nb.Handler()":        "assignment mismatch",
		"b, err := bridge.New(nil)\nb.Handle(err)": "b.Handle undefined",
		"b, err := bridge.New(":                    "missing",
	} {
		assert.ErrorContains(t, imports.check(module+"/bridge", code), want, code)
	}
	assert.NoError(t, imports.check(module+"/bridge",
		"b, err := bridge.New(mine)\nif err != nil {\n\treturn err\n}\nserve(b)"))
}

// The root package's comment names every package that is not only for tests.
func TestPackageComments_haveAMapOfAllPackages(t *testing.T) {
	root, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	for path := range publicPackages(t) {
		if name := inModule(path); name != "" && !isTestHelp(name) {
			assert.Regexp(t, `[\t/]`+name+`[\] ]`, string(root), path)
		}
	}
}

// A package that is not only for tests shows its use by an example that runs.
func TestPackages_haveExamples(t *testing.T) {
	for path, dir := range publicPackages(t) {
		tests := musttest.New(filepath.Glob(filepath.Join(dir, "*_test.go")))
		has := slices.ContainsFunc(tests, func(name string) bool {
			source, err := os.ReadFile(name)
			return err == nil && bytes.Contains(source, []byte("\nfunc Example"))
		})
		assert.True(t, has || isTestHelp(path), "%s has no example", path)
	}
}

// publicPackages returns the folders of the packages that users import, by path.
func publicPackages(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for _, p := range list(t) {
		if name := p.name(); !within(name, "internal") && !within(name, "cmd") && !within(name, "examples") {
			dirs[p.ImportPath] = filepath.Join("../..", filepath.FromSlash(name))
		}
	}
	return dirs
}

// goCode matches a line that is Go rather than JSON, a shell command or a table.
var goCode = regexp.MustCompile(`(?m):= |^(func|type|return|defer) |^go [a-z]+[.(]|^(err =|mux\.)`)

// snippets returns the Go code in the package comment of a folder.
func snippets(t *testing.T, dir string) (code []string) {
	t.Helper()
	files := musttest.New(filepath.Glob(filepath.Join(dir, "*.go")))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := musttest.New(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly))
		for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
			if c, ok := block.(*comment.Code); ok && goCode.MatchString(c.Text) {
				code = append(code, c.Text)
			}
		}
	}
	return code
}

// exports finds the compiled form of packages, by path and by name.
type exports struct {
	files map[string]string // the export data's, by import path
	named map[string]string // import paths, by name; the module's own come first

	set      *token.FileSet
	importer types.Importer // reads each file once
}

// exported returns the packages that the module depends on, with -race those that the tests are compiled with.
func exported(t *testing.T) exports {
	t.Helper()
	type compiled struct{ ImportPath, Name, Export string }
	packages := musttest.New(goList[compiled]("-race", "-export", "-deps", "-json=ImportPath,Name,Export"))
	all := exports{files: map[string]string{}, named: map[string]string{}, set: token.NewFileSet()}
	all.importer = importer.ForCompiler(all.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(all.files[path])
	})
	for _, p := range packages {
		all.files[p.ImportPath] = p.Export
		if _, known := all.named[p.Name]; !known || isOurs(p.ImportPath) || p.Name == p.ImportPath {
			all.named[p.Name] = p.ImportPath
		}
	}
	return all
}

// check parses code as statements or as declarations, and type-checks it with the packages that it names imported.
func (e exports) check(path, code string) error {
	code = strings.ReplaceAll(code, "…", "")
	body, err := e.parse("func _() error {\n" + code + "\npanic(0)\n}")
	if err != nil {
		var asDeclarations error
		if body, asDeclarations = e.parse(code); asDeclarations != nil {
			return err
		}
	}
	file, err := parser.ParseFile(e.set, "snippet.go", e.header(body)+body, 0)
	if err != nil {
		return err
	}
	var wrong []error
	config := types.Config{
		Importer: e.importer,
		Error: func(err error) {
			if text := err.Error(); !strings.Contains(text, "declared and not used") && !undeclared.MatchString(text) {
				wrong = append(wrong, err)
			}
		},
	}
	_, _ = config.Check(path, e.set, []*ast.File{file}, nil) // every error was passed to Error
	return errors.Join(wrong...)
}

// undeclared matches the error for a name that a snippet leaves to its reader.
var undeclared = regexp.MustCompile(`: undefined: [a-zA-Z]+$`)

func (e exports) parse(body string) (string, error) {
	_, err := parser.ParseFile(token.NewFileSet(), "snippet.go", "package snippet\n"+body, parser.SkipObjectResolution)
	return body, err
}

var qualifier = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.[A-Z]`)

// header returns the package clause, and an import of each package that code names.
func (e exports) header(code string) string {
	header := "package snippet\n"
	for _, match := range qualifier.FindAllStringSubmatch(code, -1) {
		path, known := e.named[match[1]]
		declared := regexp.MustCompile(`\b` + match[1] + `\b[^\n(]*:=|\b` + match[1] + ` \*?[a-zA-Z.]+[,)]`).MatchString(code)
		line := fmt.Sprintf("import %s %q\n", match[1], path)
		if known && !declared && !strings.Contains(header, line) {
			header += line
		}
	}
	return header
}
