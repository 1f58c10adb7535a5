package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// group is what tests of the repository show that this program does not try itself.
type group struct {
	figure   string
	packages []string
	run      string // of the names of the tests: patterns with | between, of which each has a test
	// that is counted: the key of the attributes with which the tests tell how much they
	// tried
	what  string
	least int    // that must have been tried
	most  string // what is meant to be none
}

// groups are in the order of the report. The last ones are of how people sign in, and how
// servers know them.
var groups = []group{
	{
		"smuggling bodies over real connections; calls that differ from their record",
		[]string{"./internal/interop"},
		"^TestT1SmugglingBodies$", "bodies", 1_000, "0",
	},
	{
		"cells of route × method × login; unexpected answers",
		[]string{"./internal/interop", "./server"},
		"^TestT14|^TestT5Origin", "cells", 500, "0",
	},
	{
		"hidden text in every position of a string; texts that arrive hidden",
		[]string{"./internal/sanitize", "./server", "./internal/interop"},
		"^TestNothingHidden|^TestT12Every|^TestT33T49OutputIsCleaned", "positions", 1_000, "0",
	},
	{
		"code points that hide, each between letters, and kinds of hidden text; what is left",
		[]string{"./internal/sanitize"},
		"^TestT33Every|^TestT33Smuggled|^TestT33Mixed|^TestT33Naughty|^TestT33Escape|" +
			"^TestT33Broken|^TestT33Allowed",
		"hidden", 100_000, "0",
	},
	{
		"legitimate texts; texts that change",
		[]string{"./internal/sanitize"},
		"^TestT33LegitimateTextsKeep|^TestT33LegitimateTextsTogether|^TestRealDefinitions",
		"texts", 69, "0",
	},
	{
		"secrets in outputs; secrets that are left",
		[]string{"./internal/sanitize"},
		"^TestT49", "secrets",
		4_000, "0",
	},
	{
		"spellings of addresses that must not be reached; connections made",
		[]string{"./internal/dial"},
		"^TestT7|^TestT47|^TestCheckJudgesAMapped", "spellings", 300, "0",
	},
	{
		"spellings of URIs that a rule denies; spellings that pass",
		[]string{"./internal/interop", "./internal/gateway"},
		"^TestWhatParsersRead|^TestDeniedURI|^TestURIWith", "spellings", 10_000, "0",
	},
	{
		"canary secrets in logs, records, metrics, errors; canaries found",
		[]string{"./internal/interop"},
		"^TestT19|^TestT48", "canaries", 7, "0",
	},
	{
		"tokens by form, algorithm, claim and time; wrong verdicts",
		[]string{"./auth"},
		"^TestT42|^TestT44|^TestPrincipal$", "tokens", 100, "0",
	},
	{
		"JSON that parsers read differently; wrong verdicts",
		[]string{"./internal/strictjson"},
		"^TestT1|^TestT37|^TestVectors|^TestJSONTestSuite", "texts", 200, "0",
	},
	{
		"tests of the JSON Schema suite; wrong verdicts",
		[]string{"./registry/schema"},
		"^TestSuiteGives",
		"tests", 2_000, "0",
	},
	{
		"faults of schemas that strangers send; crashes, hangs",
		[]string{"./registry/schema"},
		"Hostile|T22|T36|Refuse", "schemas", 61, "0",
	},
	{
		"schemas of real tools; refused",
		[]string{"./registry"},
		"^TestRealToolSchemas", "schemas", 16,
		"0",
	},
	{
		"calls and lists of users, told to a server at once; those under another's name or credential",
		[]string{"./registry/credential", "./registry/upstream"},
		"UnderItsOwnUser$|^TestListsAre|^TestListsOf|^TestIdentitiesAre|^TestTwoTokens|" +
			"^TestReplicasAsk|^TestRacing",
		"calls", 480, "0",
	},
	{
		"attacks on how servers are told who calls: redirects, challenges, arguments, endpoints, " +
			"metadata, tenants that change; that succeed",
		[]string{"./registry/credential", "./registry/upstream", "./registry/openapi"},
		"^TestEndpointThat|^TestRefusalsOf|^TestMetadata|^TestArgumentsCannot|" +
			"^TestArgumentsReplaceNoC|" +
			"^TestRefusedCredential|^TestNothingThat|" +
			"^TestSessionIsNot|^TestCredentialGoes|^TestIdentityThat", "", 0, "0",
	},
	{
		"sign-ins: redirects in other spellings, guessed codes, tokens, secrets and keys, states, " +
			"proofs and cookies of others; what leads anywhere",
		[]string{"./auth/signin", "./auth/accesskey"},
		"^TestNoSpellingOf|^TestNoTokenIs|^TestNoAnswerOf|^TestTextsThatAre|" +
			"^TestGuesses", "attempts", 100_000, "0",
	},
	{
		"sign-ins: mix-up, injection, fixation, CSRF, downgrade, replay, forged keys, SSRF, floods; " +
			"attacks that succeed",
		[]string{"./auth/signin", "./auth/provider"},
		"^TestRedirectTricks|^TestRedirectsThat|^TestRequestsThat|^TestReplayAt|^TestRefreshTokens|" +
			"^TestRegistrationFlood|^TestAnswersOf|^TestConsentIs|^TestCodesAre|" +
			"^TestForged|^TestAddressesOf|^TestSecretsIn|^TestDocumentsOf|^TestPagesCannot|" +
			"^TestTokensOfTenants|^TestUnknownClients|" +
			"^TestIDTokenIs|^TestSignatureIs|^TestIssuerParameter|^TestVerifyLogout", "", 0, "0",
	},
}

// ran is what a group of tests came to.
type ran struct {
	passed, failed, skipped, tried int
	faults                         string
}

// event is a line of go test -json.
type event struct{ Action, Test, Key, Value, Output string }

// measure runs the tests of the group.
func (g group) measure(ctx context.Context, root string) ran {
	args := append([]string{"test", "-json", "-count=1", "-timeout=30m", "-run", g.run}, g.packages...)
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the groups of this program
	command.Dir = root
	out, err := command.Output()
	exit, exited := errors.AsType[*exec.ExitError](err)
	must.Be(err == nil || exited, "%w", err)
	result := g.read(out)
	if err != nil && result.failed == 0 { // it was not built, or ended by itself
		result.failed++
		result.faults += string(exit.Stderr)
	}
	return result
}

// read counts what go test -json says.
func (g group) read(out []byte) (r ran) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" { //nolint:forbidigo // of the go command
			continue
		}
		switch e.Action {
		case "pass":
			r.passed++
		case "fail":
			r.failed++
			r.faults += e.Test + " "
		case "skip":
			r.skipped++
		case "attr":
			if n, err := strconv.Atoi(e.Value); err == nil && e.Key == g.what {
				r.tried += n
			}
		}
	}
	return r
}

// command is how to run the group by itself.
func (g group) command() string {
	return fmt.Sprintf("go test -run '%s' %s", g.run, strings.Join(g.packages, " "))
}

// target is a test or a fuzz target.
type target struct{ folder, name string }

var declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// declared lists the tests and fuzz targets of the repository.
func declared(root string) (all []target) {
	must.OK(filepath.WalkDir(root, func(file string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != root && (entry.Name() == "node_modules" || entry.Name() == "testdata" ||
			entry.Name()[0] == '.'):
			return filepath.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		folder, _ := filepath.Rel(root, filepath.Dir(file)) // a file within root
		text := must.Have(os.ReadFile(file))                //nolint:gosec // G304: a file of this repository
		for _, found := range declaration.FindAllSubmatch(text, -1) {
			all = append(all, target{"./" + filepath.ToSlash(folder), string(found[1])})
		}
		return nil
	}))
	return all
}

// targets lists the fuzz targets of the repository.
func targets(root string) []target {
	return slices.DeleteFunc(declared(root), func(t target) bool { return !strings.HasPrefix(t.name, "Fuzz") })
}

// fuzzed is what came of a target.
type fuzzed struct {
	target

	took       time.Duration // as the go command counts it, from the first input on
	executions int
	found      string // what it said when it found something; "": it found nothing
}

var elapsed = regexp.MustCompile(`fuzz: elapsed: (\w+), execs: (\d+)`)

// fuzz runs each target for a time.
func fuzz(ctx context.Context, root string, all []target, each time.Duration, say reporter) (came []fuzzed) {
	for _, one := range all {
		f := one.fuzz(ctx, root, each)
		cut := strings.Contains(f.found, "context deadline exceeded") &&
			!strings.Contains(f.found, "Failing input")
		// its time ended in the middle of an input, or before the first one
		if cut || f.found == "" && f.executions == 0 {
			f = one.fuzz(ctx, root, each)
		}
		say("fuzz %s %s: %s executions %s", one.folder, one.name, page.Grouped(f.executions), f.found)
		came = append(came, f)
	}
	return came
}

// fuzz runs the target for a time.
func (t target) fuzz(ctx context.Context, root string, each time.Duration) fuzzed {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), t.folder) //nolint:gosec // G204: names from this repository
	command.Dir = root
	out, err := command.CombinedOutput()
	return t.read(string(out), err)
}

// read reads what a run of the target said.
func (t target) read(out string, err error) fuzzed {
	f := fuzzed{target: t}
	for _, line := range elapsed.FindAllStringSubmatch(out, -1) { // the last one counts
		f.took, _ = time.ParseDuration(line[1]) // zero when the go command writes it in another way
		f.executions, _ = strconv.Atoi(line[2]) // digits; zero when there are too many
	}
	if err != nil {
		f.found = strings.TrimSpace(out + " " + err.Error())
	}
	return f
}

// advisory is one of docs/evidence/advisories.md.
type advisory struct{ id, tests string }

var testName = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")

// advisories reads the table: those with a test, and those whose row says why there is
// none.
func advisories(root string) (tested, without []advisory) {
	page := must.Have(os.ReadFile(filepath.Join(root, "docs", "evidence", "advisories.md"))) //nolint:gosec // G304: a page of this repository
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(strings.TrimSpace(cells[1]), "-") ||
			strings.TrimSpace(cells[1]) == "advisory" {
			continue
		}
		for id := range strings.SplitSeq(cells[1], ",") {
			one := advisory{strings.TrimSpace(id), cells[4]}
			if testName.MatchString(one.tests) {
				tested = append(tested, one)
			} else {
				without = append(without, one)
			}
		}
	}
	return tested, without
}

// missing lists the tests that the advisories name and that do not exist.
func missing(root string, all []advisory) (names []string) {
	there := make(map[string]bool)
	for _, one := range declared(root) {
		there[one.name] = true
	}
	for _, one := range all {
		for _, found := range testName.FindAllStringSubmatch(one.tests, -1) {
			if !there[found[1]] && !slices.Contains(names, found[1]) {
				names = append(names, found[1])
			}
		}
	}
	return names
}
