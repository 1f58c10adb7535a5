package interop_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// skillsServer is a server of either era with skills.
type skillsServer struct {
	modern bool
	files  map[string]string // by URI
	served map[string]string // what resources/read answers instead, by URI
}

// newSkillsServer starts a server with two skills, of which the first has a directory
// within.
func newSkillsServer(t testing.TB, name string, modern bool) *skillsServer {
	t.Helper()
	s := &skillsServer{modern: modern, served: map[string]string{}, files: map[string]string{}}
	for _, one := range []string{"forms", "notes"} {
		root := "skill://" + name + "/" + name + "-" + one + "/"
		s.files[root+"SKILL.md"] = "---\nname: " + name + "-" + one +
			"\ndescription: Works with " + one + "\nmetadata:\n  level: three\n---\r\n# " + one +
			"\n\nSee [the guide](references/guide.md).\n"
		s.files[root+"references/guide.md"] = "\ufeffA guide\r\nof " + one
		s.files[root+"references/deep/more.md"] = "more"
	}
	return s
}

// skill returns what the server says of the skill in a directory.
func (s *skillsServer) skill(root string) string {
	var files []string
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasPrefix(uri, root) {
			files = append(files, fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, uri,
				sha256.Sum256([]byte(s.files[uri])), len(s.files[uri])))
		}
	}
	name := path.Base(strings.TrimSuffix(root, "/"))
	_, what, _ := strings.Cut(name, "-")
	return fmt.Sprintf(
		`{"uri":%q,"frontmatter":{"name":%q,"description":"Works with %s","metadata":{"level":"three"}},"resources":[%s]}`,
		root+"SKILL.md", name, what, strings.Join(files, ","))
}

// roots returns the directories of the skills.
func (s *skillsServer) roots() (all []string) {
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		if root, ok := strings.CutSuffix(uri, "SKILL.md"); ok {
			all = append(all, root)
		}
	}
	return all
}

// children returns what is in a directory, nil if it is none.
func (s *skillsServer) children(directory string) (all []string) {
	seen := map[string]bool{}
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		rest, ok := strings.CutPrefix(uri, directory+"/")
		name, _, isDirectory := strings.Cut(rest, "/")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		kind := "text/markdown"
		if isDirectory {
			kind = "inode/directory"
		}
		all = append(all, fmt.Sprintf(`{"uri":%q,"name":%q,"mimeType":%q}`, directory+"/"+name, name, kind))
	}
	return all
}

// ServeHTTP implements http.Handler: Streamable HTTP without sessions.
func (s *skillsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var params struct{ URI string }
	_ = json.Unmarshal(m.Params, &params) // most have none
	const can = `"capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`
	var skills, resources []string
	for _, root := range s.roots() {
		skills = append(skills, s.skill(root))
		name := path.Base(strings.TrimSuffix(root, "/"))
		_, what, _ := strings.Cut(name, "-")
		resources = append(resources, fmt.Sprintf(`{"uri":%q,"name":%q,"description":"Works with %s","mimeType":"text/markdown"}`,
			root+"SKILL.md", name, what))
	}
	result := ""
	switch children := s.children(params.URI); {
	case m.Method == "initialize":
		result = `"protocolVersion":"2025-11-25",` + can + `,"serverInfo":{"name":"skilled","version":"1"}`
	case m.Method == "server/discover" && s.modern:
		result = `"supportedVersions":["2026-07-28"],` + can
	case m.Method == "resources/list":
		result = `"resources":[` + strings.Join(resources, ",") + `]`
	case m.Method == "resources/templates/list":
		result = `"resourceTemplates":[]`
	case m.Method == "skills/list":
		result = `"skills":[` + strings.Join(skills, ",") + `]`
	case m.Method == "skills/get" && s.files[params.URI] != "":
		result = `"skill":` + s.skill(strings.TrimSuffix(params.URI, "SKILL.md"))
	case m.Method == "resources/read" && s.files[params.URI] != "":
		text, changed := s.served[params.URI]
		if !changed {
			text = s.files[params.URI]
		}
		quoted, _ := json.Marshal(text)
		result = fmt.Sprintf(`"contents":[{"uri":%q,"mimeType":"text/markdown","text":%s}]`, params.URI, quoted)
	case m.Method == "resources/directory/read" && children != nil:
		result = `"resources":[` + strings.Join(children, ",") + `]`
	case m.Method == "ping":
	case m.Method == "skills/get" || strings.HasPrefix(m.Method, "resources/"):
		fail(w, m.ID, -32602)
		return
	default:
		fail(w, m.ID, -32601)
		return
	}
	if s.modern {
		result += `,"resultType":"complete","ttlMs":60000,"cacheScope":"public"`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, strings.TrimPrefix(result, ","))
}

// serveSkills starts a gateway, or a fleet, before a server with skills of each era.
func serveSkills(t *testing.T, settle func(testing.TB) *gateway) (*gateway, map[string]*skillsServer) {
	t.Helper()
	all := map[string]*skillsServer{"new": newSkillsServer(t, "new", true), "old": newSkillsServer(t, "old", false)}
	servers := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		web := httptest.NewServer(all[name])
		t.Cleanup(web.Close)
		servers += fmt.Sprintf("  %s: %s\n", name, private(web.URL))
	}
	g := serveAt(t, settle(t), fmt.Sprintf(`tenants:
  acme: {servers: [new, old], rules: [{allow: ["*", "resource:*", "skill:*"]}], limits: %s}
servers:
%s`, generous, servers))
	return g, all
}

// TestConformanceOfSkills lets the official suite look at the skills of two servers at
// once, before one gateway and before a fleet.
func TestConformanceOfSkills(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			g, _ := serveSkills(t, form.settle)
			proxy := tokenProxy(t, g)
			for scenario, least := range map[string]int{
				"sep-2640-skills-enumeration": 30, "sep-2640-skills-manifest": 4, "sep-2640-skills-directory": 6,
			} {
				out := t.TempDir()
				if err := suite(t, patient, "server", "--url", proxy+"/mcp", "--scenario", scenario, "-o", out); err != nil {
					t.Error(err)
				}
				judgeSkills(t, out, least)
			}
		})
	}
}

// judgeSkills counts the checks that passed.
func judgeSkills(t *testing.T, out string, least int) {
	t.Helper()
	for name, checks := range readChecks(t, out, "server-") {
		passed, failed := count(checks)
		t.Logf("%s: %d checks passed, %d failed", name, passed, len(failed))
		if passed < least || len(failed) > 0 {
			t.Errorf("%s: %d checks passed, want %d; failed: %v", name, passed, least, failed)
		}
		for _, c := range checks {
			if c.Status != "SUCCESS" {
				t.Logf("%s %s: %s", c.Status, c.ID, c.ErrorMessage)
			}
		}
	}
}

// TestClientsVerifySkills runs the SDK's own client of skills, which compares each file
// with its digest, and finds a byte that was changed.
func TestClientsVerifySkills(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	g, all := serveSkills(t, settle)
	all["old"].served["skill://old/old-notes/references/guide.md"] = "\ufeffA guide\r\nof nOtes"
	token := g.token(t)
	for _, revision := range []string{"legacy", modernRevision} {
		told := follow(t, exec.CommandContext(t.Context(), binary, "clients/skills.mjs", revision,
			"http://"+g.addr+"/mcp", token), func() {})
		if got := strings.Join(told["listed"].Names, " "); got != "new-forms new-notes old-forms old-notes" {
			t.Errorf("%s: listed %q", revision, got)
		}
		if got := strings.Join(told["refused"].Names, " "); got !=
			"digest skill://old/old/old-notes/references/guide.md" {
			t.Errorf("%s: refused %q", revision, got)
		}
		if got := told["read"].Text; got != "11" {
			t.Errorf("%s: %s files were read, want the 11 others", revision, got)
		}
		if got := strings.Join(told["directory"].Names, " "); got != "deep guide.md" {
			t.Errorf("%s: in the directory: %q", revision, got)
		}
	}
	g.unhurt(t)
}

// TestConformanceOfClientsOfSkills lets the official suite look at a client that has the
// suite's server behind the gateway: no file is read before it is wanted, and what was
// changed at the server is found by the client.
func TestConformanceOfClientsOfSkills(t *testing.T) {
	t.Parallel()
	binary, _ := node(t)
	for scenario, want := range map[string]struct{ how, refused string }{
		"sep-2640-client-no-prefetch":        {"list", ""},
		"sep-2640-client-verify-digest":      {"load", "digest"},
		"sep-2640-client-verify-size":        {"load", "size"},
		"sep-2640-client-verify-frontmatter": {"load", "frontmatter"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			out, finished, jobs := t.TempDir(), make(chan error, 1), takeJobs(t)
			command := clientUnderTest(t, jobs.url)
			go func() { // ends with the suite, which has a limit of its own
				finished <- suite(t, patient, "client", "--command", command, "--scenario", scenario, "-o", out,
					"--timeout", "100000")
			}()
			select {
			case j := <-jobs.all:
				loadSkills(t, binary, j, want.how, want.refused)
				if err := <-finished; err != nil {
					t.Error(err)
				}
			case err := <-finished:
				t.Fatalf("the suite started no client: %v", err)
			}
			for name, checks := range readChecks(t, out, "") {
				if passed, failed := count(checks); passed == 0 || passed < len(checks) {
					t.Errorf("%s: %d of %d checks passed; failed: %v", name, passed, len(checks), failed)
				}
			}
		})
	}
}

// loadSkills runs a client of skills before a gateway whose server is that of the suite.
func loadSkills(t *testing.T, binary string, j *job, how, refused string) {
	t.Helper()
	code := 1
	defer func() { j.done <- code }()
	g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [mock], rules: [{allow: ["*", "resource:*", "skill:*"]}], limits: %s}
servers:
  mock: {url: %q, private_addresses: true}
`, generous, j.URL))
	t.Cleanup(g.kill) // others look at how it stops
	eventually(t, "the suite's skills are listed", func() bool {
		s := g.speak(t, g.token(t), modernRevision)
		return strings.Contains(string(s.ask(t, "1", "skills/list", "", "").Result), "pdf-processing")
	})
	told := follow(t, exec.CommandContext(t.Context(), binary, "clients/loadskills.mjs", "http://"+g.addr+"/mcp",
		g.token(t), how), func() {})
	if got := strings.Join(told["listed"].Names, " "); got != "pdf-processing" {
		t.Errorf("listed %q", got)
	}
	if got := strings.Join(told["refused"].Names, " "); got != refused {
		t.Errorf("refused %q, want %q", got, refused)
	}
	code = 0
}
