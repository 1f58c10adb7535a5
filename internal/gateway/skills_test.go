package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const skillOfPDF = `{"uri":"skill://docs/pdf/SKILL.md","frontmatter":{"name":"pdf","description":"d","n":1.50,"uri":"skill://docs/pdf/SKILL.md"},` +
	`"resources":[{"uri":"skill://docs/pdf/SKILL.md","digest":"sha256:00","size":9},{"uri":"skill://docs/pdf/a/form.md","digest":"sha256:01","size":4}]}`

// skillServer offers one skill, and answers for one that it does not list.
func skillServer(name string, seen *[]*registry.Call) registry.Source {
	extensions := (*mcp.ExtensionTable)(nil).OfServer(
		object(`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`))
	return registry.Source{
		Name: name, Prefix: name, Reads: true, Extensions: extensions,
		Skills:      []mcp.Object{object(skillOfPDF)},
		SkillsFresh: time.Now().Add(time.Hour),
		Use: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			*seen = append(*seen, c)
			switch {
			case strings.Contains(c.Target, "nonexistent"):
				return mcp.Object{}, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "no such skill"}
			case c.Method == mcp.MethodSkillsGet:
				return object(`{"skill":` + strings.ReplaceAll(skillOfPDF, "skill://docs/pdf/SKILL.md",
					c.Target) + `,"ttlMs":5000,"cacheScope":"public"}`), nil
			case c.Method == mcp.MethodDirectoryRead:
				return object(`{"resources":[{"uri":"` + c.Target +
					`/form.md","name":"form.md"},{"uri":"skill://docs/secret/x.md","name":"x.md"}]}`), nil
			}
			return object(`{"contents":[{"uri":"` + c.Target +
				`","mimeType":"text/markdown","text":"\ufeffa\r\nb` +
				map[bool]string{true: `\u200bc`}[strings.HasSuffix(c.Target, "hides.md")] + `"}]}`), nil
		},
	}
}

func newSkillBench(t *testing.T, rules []Rule, servers ...string) (*bench, *[]*registry.Call) {
	t.Helper()
	b := newBench(t, TenantConfig{ID: "acme", Servers: append(servers, "box"), Rules: rules})
	seen := &[]*registry.Call{}
	for _, name := range servers {
		b.replace(t, skillServer(name, seen))
	}
	return b, seen
}

var everySkill = []Rule{{Allow: []string{"*", "skill:*"}}}

// skillOf returns the one skill in a list of skills, or what skills/get answers, with the
// URIs of the server mod.
func skillOf(t *testing.T, b *bench, method, params string) (skill, whole string) {
	t.Helper()
	result, failure := b.handle(t, ask(method, params))
	if failure != nil {
		t.Fatalf("%s: %v", method, failure)
	}
	if list, ok := result.Value("skills").Elements(); ok {
		if len(list) == 0 {
			return "", string(result.JSON())
		}
		return string(list[0]), string(result.JSON())
	}
	return string(result.Value("skill")), string(result.JSON())
}

func TestSkillsKeepAllButTheirURIs(t *testing.T) {
	b, seen := newSkillBench(t, everySkill, "mod", "other")
	// the frontmatter is the server's, URIs included
	want := strings.NewReplacer(`{"uri":"skill://`, `{"uri":"skill://mod/`).Replace(skillOfPDF)
	got, whole := skillOf(t, b, mcp.MethodSkillsList, `{}`)
	if got != want {
		t.Errorf("listed: got %s, want %s", got, want)
	}
	if !strings.Contains(whole, `"skill://other/docs/pdf/SKILL.md"`) ||
		!strings.Contains(whole, `"cacheScope":"private"`) {
		t.Errorf("of two servers: got %s", whole)
	}
	if ttl, _ := object(whole).Value("ttlMs").Int(); ttl < 3_000_000 || ttl > 3_600_000 {
		t.Errorf("fresh for %d ms, want what is left of an hour", ttl)
	}
	for _, uri := range []string{"skill://mod/docs/pdf/SKILL.md", "skill://mod/not/listed/SKILL.md"} {
		got, whole = skillOf(t, b, mcp.MethodSkillsGet, `{"uri":"`+uri+`"}`)
		if object(got).Text("uri") != uri || !strings.Contains(got, `"n":1.50`) ||
			!strings.Contains(whole, `"ttlMs":5000,"cacheScope":"private"`) {
			t.Errorf("%s: got %s", uri, whole)
		}
	}
	if last := (*seen)[len(*seen)-1].Target; last != "skill://not/listed/SKILL.md" {
		t.Errorf("the server was asked for %s", last)
	}
	_, failure := b.handle(t, ask(mcp.MethodSkillsGet, `{"uri":"skill://mod/nonexistent/SKILL.md"}`))
	if failure == nil || failure.Code != mcp.CodeInvalidParams {
		t.Errorf("an unknown skill: got %v, want -32602", failure)
	}
}

func TestFilesOfSkillsPassByteForByteOrNotAtAll(t *testing.T) {
	b, _ := newSkillBench(t, everySkill, "mod")
	read := func(uri string) (string, *mcp.Error) {
		result, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"`+uri+`"}`))
		return string(result.JSON()), failure
	}
	got, failure := read("skill://mod/docs/pdf/a/form.md")
	if failure != nil || !strings.Contains(got, `"uri":"skill://mod/docs/pdf/a/form.md"`) ||
		!strings.Contains(got, `"text":"\ufeffa\r\nb"`) {
		t.Errorf("got %s, %v", got, failure)
	}
	if _, failure := read("skill://mod/docs/pdf/hides.md"); failure.StableCode() != "DB-OUTPUT-HIDDEN" {
		t.Errorf("hidden text: got %v", failure)
	}
	if records := b.records(t); !strings.Contains(records, `"item":"skill://mod/docs/pdf/a/form.md"`) {
		t.Errorf("on record: %s", records)
	}
}

func TestRulesOfSkillsHoldForTheirFiles(t *testing.T) {
	const file, skill = "skill://mod/docs/pdf/a/form.md", "skill://mod/docs/pdf/SKILL.md"
	for name, test := range map[string]struct {
		rules        []Rule
		skill, files bool
	}{
		"allowed":         {[]Rule{{Allow: []string{"skill:mod:skill://docs/*", "*"}}}, true, true},
		"another":         {[]Rule{{Allow: []string{"skill:mod:skill://other/*", "*"}}}, false, false},
		"the files alone": {[]Rule{{Allow: []string{"resource:*", "*"}}}, false, true},
		"denied": {[]Rule{{
			Allow: []string{"skill:*", "resource:*", "*"},
			Deny:  []string{"skill:mod:*/pdf/*"},
		}}, false, false},
		"denied, spelt else": {[]Rule{{
			Allow: []string{"skill:*", "resource:*", "*"},
			Deny:  []string{"skill:mod:skill://docs/%70df/*"},
		}}, false, false},
		"a file is denied": {[]Rule{{
			Allow: []string{"skill:*", "*"},
			Deny:  []string{"resource:mod:*form.md"},
		}}, true, false},
	} {
		b, _ := newSkillBench(t, test.rules, "mod")
		_, failure := b.handle(t, ask(mcp.MethodSkillsGet, `{"uri":"`+skill+`"}`))
		if test.skill != (failure == nil) {
			t.Errorf("%s: the skill: got %v", name, failure)
		}
		if _, failure = b.handle(t,
			ask(mcp.MethodResourcesRead, `{"uri":"`+file+`"}`)); test.files != (failure == nil) {
			t.Errorf("%s: a file: got %v", name, failure)
		}
		result, failure := b.handle(t, ask(mcp.MethodSkillsList, `{}`))
		switch {
		case test.skill && !strings.Contains(string(result.JSON()), skill):
			t.Errorf("%s: listed %s, %v", name, result.JSON(), failure)
		case !test.skill && strings.Contains(string(result.JSON()), "pdf"):
			t.Errorf("%s: listed %s", name, result.JSON())
		}
	}
}

func TestDirectoriesShowWhatMayBeRead(t *testing.T) {
	b, _ := newSkillBench(t, everySkill, "mod")
	result, failure := b.handle(t, ask(mcp.MethodDirectoryRead, `{"uri":"skill://mod/docs/pdf/a"}`))
	if got := string(result.Value("resources")); failure != nil ||
		got != `[{"uri":"skill://mod/docs/pdf/a/form.md","name":"form.md"}]` {
		t.Errorf("got %s, %v", got, failure)
	}
}

func TestMethodsOfSkillsAreThereWhereAServerHasThem(t *testing.T) {
	b := newBench(t)
	for _, method := range []string{mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodDirectoryRead} {
		if _, failure := b.handle(t, ask(method, `{"uri":"skill://mod/x/SKILL.md"}`)); failure == nil ||
			failure.Code != mcp.CodeMethodNotFound {
			t.Errorf("%s: got %v, want that there is no such method", method, failure)
		}
	}
}

func TestSkillsAreBounded(t *testing.T) {
	b := newBench(t)
	files := strings.Repeat(`{"uri":"skill://a/b/f","digest":"sha256:00","size":1},`, 513)
	for reason, definition := range map[string]string{
		"size": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":[` +
			strings.TrimSuffix(files, ",") + `]}`,
		"size ":  `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":[{"uri":"skill://a/b/SKILL.md","size":16777217}]}`,
		"schema": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":{}}`,
		"name":   `{"uri":"skill://a/b/SKILL.md","frontmatter":{},"resources":"dynamic"}`,
		"uri":    `{"uri":"b","frontmatter":{"name":"b"},"resources":"dynamic"}`,
		"secret": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b","x":"` + "AKIA" +
			`QYLPMN5HFIQR7XYA"},"resources":"dynamic"}`,
		"nothing": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":"dynamic"}`,
	} {
		source := skillServer("mod", &[]*registry.Call{})
		source.Skills = []mcp.Object{object(definition)}
		refused := b.registry.Replace(source)
		if reason == "nothing" != (len(refused) == 0) || len(refused) == 1 &&
			refused[0].Reason != strings.TrimSpace(reason) {
			t.Errorf("%s: refused %+v", reason, refused)
		}
	}
}
