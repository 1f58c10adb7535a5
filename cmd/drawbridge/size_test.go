package main

import (
	"debug/elf"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSignInFitsIntoTheBinary bounds what signing in adds to the program: everything that
// would not be linked without sign-ins, access keys, the store and its two drivers, of
// which those of databases are also the tool's that queries them. What belongs to no
// package, such as tables of the runtime, is shared out by size.
func TestSignInFitsIntoTheBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads the binaries of Linux")
	}
	t.Parallel()
	output := func(args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "go", args...).Output()
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		return out
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(output("list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "."))) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	const module = "github.com/drawbridge-mcp/drawbridge/"
	signIn := []string{"auth/signin", "auth/provider", "auth/accesskey", "internal/store"}
	without := linked(imports, module, signIn)
	withoutDrivers := linked(imports, module, append(signIn, "internal/database"))

	binary := filepath.Join(t.TempDir(), "drawbridge")
	output("build", "-buildvcs=false", "-o", binary, ".") // with the flags of other tests, so that little is compiled
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var size float64 // of what is there at run time, as in a release
	for _, section := range file.Sections {
		if inFile(section) {
			size += float64(section.Size)
		}
	}
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var all, own, drivers float64
	for _, symbol := range symbols {
		pkg := packageOf(symbol.Name, imports)
		if int(symbol.Section) >= len(file.Sections) || !inFile(file.Sections[symbol.Section]) || pkg == "" {
			continue
		}
		switch {
		case !without[pkg]:
			own += float64(symbol.Size)
		case !withoutDrivers[pkg]:
			drivers += float64(symbol.Size)
		}
		all += float64(symbol.Size)
	}
	const mega = 1e6
	share := size / all / mega
	t.Logf("of %.1f MB sign-ins, keys and the store are %.2f MB, and the drivers of databases %.2f MB",
		size/mega, own*share, drivers*share)
	if most := 8.0; own*share < 0.3 || drivers*share < 2 || (own+drivers)*share > most {
		t.Errorf("sign-ins add %.2f MB and drivers %.2f MB, want %v MB at most", own*share, drivers*share, most)
	}
	for page, text := range map[string]string{
		"sizing.md":    `access keys and the store \| (OWN) MB of (ALL) MB,[^|]*\|\n.* too \| (DRIVERS) MB`,
		"data.md":      `the program \| (OWN) MB of (ALL) MB,`,
		"databases.md": `Of the binary's (ALL) MB the drivers are (DRIVERS) MB`,
	} {
		documented(t, page, text, map[string]float64{"OWN": own * share, "DRIVERS": drivers * share, "ALL": size / mega})
	}
}

// documented fails the test unless a page has the text, and in it, in the place of each
// name, a number that is a tenth off at most.
func documented(t *testing.T, page, text string, numbers map[string]float64) {
	t.Helper()
	for name := range numbers {
		text = strings.Replace(text, "("+name+")", "(?P<"+name+">[0-9.]+)", 1)
	}
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(text)
	found := form.FindSubmatch(content)
	if found == nil {
		t.Fatalf("docs/%s has no %s", page, text)
	}
	for i, name := range form.SubexpNames() {
		if name == "" {
			continue
		}
		said, err := strconv.ParseFloat(string(found[i]), 64)
		if err != nil || math.Abs(said/numbers[name]-1) > 0.1 {
			t.Errorf("docs/%s says %s MB, measured are %.2f", page, found[i], numbers[name])
		}
	}
}

// inFile tells whether a section is loaded from the file.
func inFile(s *elf.Section) bool { return s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS }

// linked returns the packages that the program would have without some of ours.
func linked(imports map[string][]string, module string, without []string) map[string]bool {
	found := map[string]bool{}
	var visit func(string)
	visit = func(pkg string) {
		gone := slices.ContainsFunc(without, func(name string) bool {
			return pkg == module+name || strings.HasPrefix(pkg, module+name+"/")
		})
		if found[pkg] || gone {
			return
		}
		found[pkg] = true
		for _, next := range imports[pkg] {
			visit(next)
		}
	}
	visit(module + "cmd/drawbridge")
	return found
}

// packageOf returns the package that a symbol belongs to, "" if that cannot be told.
func packageOf(symbol string, imports map[string][]string) string {
	symbol = strings.TrimPrefix(strings.TrimPrefix(symbol, "type:"), "go:itab.")
	symbol = strings.TrimLeft(symbol, "*.[]")
	slash := strings.LastIndexByte(symbol[:len(symbol)-len(strings.TrimLeft(symbol, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./%"))], '/')
	dot := strings.IndexByte(symbol[slash+1:], '.')
	if dot < 0 {
		return ""
	}
	name := strings.ReplaceAll(symbol[:slash+1+dot], "%2e", ".")
	if name == "main" {
		name = "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge"
	}
	if imports[name] == nil {
		return ""
	}
	return name
}
