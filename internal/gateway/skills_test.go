package gateway

import (
	"context"
	"errors"
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
		"one file's skill, asked in capitals": {[]Rule{{
			Allow: []string{"resource:*", "*"},
			Deny:  []string{"skill:mod:skill://docs/pdf/SKILL.md"},
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
		"size of the files": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":[{"uri":"skill://a/b/SKILL.md","size":16777217}]}`,
		"schema":            `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":{}}`,
		"name":              `{"uri":"skill://a/b/SKILL.md","frontmatter":{},"resources":"dynamic"}`,
		"uri":               `{"uri":"b","frontmatter":{"name":"b"},"resources":"dynamic"}`,
		"secret": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b","x":"` + "AKIA" +
			`QYLPMN5HFIQR7XYA"},"resources":"dynamic"}`,
		"nothing": `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":"dynamic"}`,
	} {
		source := skillServer("mod", &[]*registry.Call{})
		source.Skills = []mcp.Object{object(definition)}
		refused := b.registry.Replace(source)
		if reason == "nothing" != (len(refused) == 0) || len(refused) == 1 &&
			refused[0].Reason != strings.Fields(reason)[0] {
			t.Errorf("%s: refused %+v", reason, refused)
		}
	}
}

func TestDeniedSkillsHaveNoOtherSpelling(t *testing.T) {
	b, _ := newSkillBench(t, []Rule{{
		Allow: []string{"resource:*", "skill:*", "*"},
		Deny:  []string{"skill:mod:skill://docs/pdf/SKILL.md"},
	}}, "mod")
	for uri, want := range map[string]bool{
		"skill://mod/docs/pdf/a/form.md": false, "skill://mod/DOCS/pdf/a/form.md": false,
		"skill://mod/docs/pdf/a?x/y": false, "skill://mod/docs/other/form.md": true,
	} {
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"`+uri+`"}`))
		if want != (failure == nil) {
			t.Errorf("%s: got %v", uri, failure)
		}
	}
}

// TestNestedSkillsAreFilesOfTheOuterOne holds because hosts read all files of a skill,
// and the outer skill lists those of the inner one.
func TestNestedSkillsAreFilesOfTheOuterOne(t *testing.T) {
	const inner = `{"uri":"skill://docs/pdf/in/SKILL.md","frontmatter":{"name":"in"},"resources":"dynamic"}`
	for name, test := range map[string]struct {
		rule  Rule
		reads bool
	}{
		"the outer is allowed": {Rule{Allow: []string{"skill:mod:skill://docs/pdf/SKILL.md", "*"}}, true},
		"the inner is allowed": {Rule{Allow: []string{"skill:mod:skill://docs/pdf/in/SKILL.md", "*"}}, true},
		"the outer is denied": {Rule{
			Allow: []string{"skill:*", "*"},
			Deny:  []string{"skill:mod:skill://docs/pdf/SKILL.md"},
		}, false},
	} {
		b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"mod", "box"}, Rules: []Rule{test.rule}})
		source := skillServer("mod", &[]*registry.Call{})
		source.Skills = append(source.Skills, object(inner))
		b.replace(t, source)
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"skill://mod/docs/pdf/in/a.md"}`))
		if test.reads != (failure == nil) {
			t.Errorf("%s: got %v", name, failure)
		}
	}
}

// TestSkillsAreJudgedWhenTheyAreGotAsInLists holds for those that no list has, too.
func TestSkillsAreJudgedWhenTheyAreGotAsInLists(t *testing.T) {
	const hides = `{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b","description":"x\u200by"},"resources":"dynamic"}`
	_, err := registry.Admit(object(hides), nil, false)
	quarantined, _ := errors.AsType[*registry.QuarantineError](err)
	for name, test := range map[string]struct {
		skill, code string
		released    []string
	}{
		"hidden text": {hides, "DB-OUTPUT-HIDDEN", nil},
		"released":    {hides, "", []string{quarantined.Digest}},
		"a secret":    {strings.Replace(hides, `x\u200by`, "AKIA"+"QYLPMN5HFIQR7XYA", 1), "DB-OUTPUT-SECRET", nil},
		"no skill":    {`{"uri":"skill://a/b/SKILL.md","resources":"dynamic"}`, "DB-UPSTREAM-PROTOCOL", nil},
		"too large": {
			`{"uri":"skill://a/b/SKILL.md","frontmatter":{"name":"b"},"resources":[` +
				`{"uri":"skill://a/b/x","digest":"sha256:00","size":16777217}]}`, "DB-UPSTREAM-PROTOCOL", nil,
		},
		"another": {strings.Replace(hides, `a/b`, "a/c/b", 1), "DB-OUTPUT-HIDDEN", nil},
	} {
		b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"mod", "box"}, Rules: everySkill})
		source := skillServer("mod", &[]*registry.Call{})
		source.Released = test.released
		source.Use = func(context.Context, *registry.Call) (mcp.Object, error) {
			return object(`{"skill":` + test.skill + `}`), nil
		}
		b.replace(t, source)
		result, failure := b.handle(t, ask(mcp.MethodSkillsGet, `{"uri":"skill://mod/a/b/SKILL.md"}`))
		if got := stable(failure); got != test.code {
			t.Errorf("%s: got %s, %v", name, result.JSON(), failure)
		}
		if test.code == "" && !strings.Contains(string(result.JSON()), `x\u200by`) {
			t.Errorf("%s: got %s", name, result.JSON())
		}
	}
}

func TestSkillsAreKnownByTheirServersURIsWhereThatIsClear(t *testing.T) {
	for name, test := range map[string]struct {
		rules   []Rule
		servers []string
		want    string
	}{
		"one server":            {everySkill, []string{"mod"}, ""},
		"two servers":           {everySkill, []string{"mod", "other"}, "DB-AMBIGUOUS"},
		"one that may be used":  {[]Rule{{Allow: []string{"skill:mod:*", "*"}}}, []string{"mod", "other"}, ""},
		"none that may be used": {[]Rule{{Allow: []string{"*"}}}, []string{"mod", "other"}, "DB-METHOD"},
	} {
		b, _ := newSkillBench(t, test.rules, test.servers...)
		_, failure := b.handle(t, ask(mcp.MethodSkillsGet, `{"uri":"skill://docs/pdf/SKILL.md"}`))
		if got := stable(failure); got != test.want {
			t.Errorf("%s: got %v, want %q", name, failure, test.want)
		}
	}
}

// TestResultsOfToolsKeepWhatLooksLikeSkills holds because only answers about skills and
// directories are taken for them.
func TestResultsOfToolsKeepWhatLooksLikeSkills(t *testing.T) {
	b, l := newLibrary(t)
	const result = `{"content":[],"skill":{"uri":"skill://a/b"},"resources":[{"uri":"file:///a"},{"n":1}]}`
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) { return object(result), nil }
	got, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`))
	for _, name := range []string{"skill", "resources"} {
		if failure != nil || string(got.Value(name)) != string(object(result).Value(name)) {
			t.Errorf("%s: got %s, %v", name, got.JSON(), failure)
		}
	}
}
