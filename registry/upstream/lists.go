package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// toolsFirst is how long tools that were read wait for slower lists before they go into
// the catalogue without them.
const toolsFirst = time.Second

// listLimit is how long all pages of all lists may take together.
const listLimit = 30 * time.Second

// lists are all lists of one control connection. Only its supervisor touches them, so
// they have no lock.
type lists struct {
	conn *control
	// nil: nothing is asked, since each user has lists of their own
	ask                                          pager
	tools, prompts, resources, templates, skills *listing
	offers                                       []registry.Offer // made of tools.items
	// of each user; nil: everybody has these lists
	personal *personal
	// which changed since the catalogue was told
	changed topics
	// the catalogue or the Status does not know the latest
	stale bool
	// a tool named a view when the tools were read last
	apps bool

	// of a variant: what its clients declare of the extensions on which lists depend
	declared mcp.Extensions
	// the extensions on which lists may depend, and the lists of clients that declare
	// others of them than conn does; none mostly, see variant.go
	varying  mcp.Extensions
	variants []*lists
}

// newLists returns the lists of a new connection. None is read yet, and the catalogue is
// to be told in any case.
func newLists(c *control, ask pager) *lists {
	return &lists{
		conn: c, stale: true, ask: ask,
		tools: &listing{
			kind: registry.KindTool, method: mcp.MethodToolsList, member: "tools",
			key: "name",
		},
		prompts: &listing{
			kind: registry.KindPrompt, method: mcp.MethodPromptsList, member: "prompts",
			key: "name",
		},
		resources: &listing{
			kind: registry.KindResource, method: mcp.MethodResourcesList, member: "resources",
			key: "uri",
		},
		templates: &listing{
			kind: registry.KindTemplate, method: mcp.MethodTemplatesList,
			member: "resourceTemplates", key: "uriTemplate",
		},
		skills: &listing{
			kind: registry.KindSkill, method: mcp.MethodSkillsList, member: "skills",
			key: "uri",
		},
	}
}

// all returns the lists of l alone, every those of its variants, too.
func (l *lists) all() []*listing {
	return []*listing{l.tools, l.prompts, l.resources, l.templates, l.skills}
}

func (l *lists) every() []*listing {
	every := l.all()
	for _, v := range l.variants {
		every = append(every, v.all()...)
	}
	return every
}

// isHad tells whether the server has a list.
func (l *lists) isHad(one *listing) bool {
	if l.ask == nil || one.kind == registry.KindSkill &&
		!l.conn.extensions().Has(mcp.ExtensionSkills) {
		return false
	}
	return l.conn.topics()&topicOf(one.kind) != 0
}

// due returns the topics of the lists that are to be read again although nothing
// announced a change. Those are, first, the lists that are no longer fresh, if the last
// attempt failed or no announcement could come. Second, after freshMax, all others: a
// server need not announce what it could, and some tell the session of a call alone.
func (l *lists) due() topics {
	var due topics
	announced := l.conn.announces.Load()
	for _, one := range l.every() {
		if !l.isHad(one) {
			continue
		}
		age := time.Since(one.read)
		if age >= one.fresh && (one.failures > 0 || !announced) || age >= freshMax {
			due |= topicOf(one.kind)
		}
	}
	return due
}

// checkAfter returns how long to wait before the next check: until the first list is no
// longer fresh, with jitter. While announcements can come, the wait is checkEvery at
// most, since the check is then mostly a proof of life.
func (l *lists) checkAfter() time.Duration {
	if l.conn.announces.Load() {
		return pace.Jitter(checkEvery)
	}
	rest := freshMax
	for _, one := range l.every() {
		if !one.read.IsZero() {
			rest = min(rest, one.fresh-time.Since(one.read))
		}
	}
	return max(rest, 0) + pace.Jitter(checkEvery/4)
}

// read reads the lists of the topics in asked, and then those of the variants. It calls
// publish when all have come, and before if the tools have come and other lists keep them
// waiting. Its error is that of the tools, which ends the connection; an error of another
// list is noted in that list, because tools work without it.
func (l *lists) read(ctx context.Context, asked topics, publish func()) error {
	early := func() {
		if l.tools.text != nil {
			publish()
		}
	}
	if err := l.readOwn(ctx, asked, early); err != nil {
		return err
	}
	if l.ask != nil {
		l.readVariants(ctx, asked, publish)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	publish()
	return nil
}

// readOwn is read without the variants and the last publish. It reads the lists at the
// same time, and calls late once if that takes longer than toolsFirst. When the tools
// cannot be read, it gives the others up.
func (l *lists) readOwn(ctx context.Context, asked topics, late func()) error {
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	wanted, beside := l.wanted(asked), l.conn.busy()
	readings := make(chan reading, len(wanted))
	for _, one := range wanted {
		go func() { // never blocks: the channel has room
			r := reading{of: one}
			r.err = l.conn.cfg.saved(ctx, func() error {
				r = one.fetch(limited, l.conn.connection, l.ask)
				r.beside = beside || l.conn.busy()
				return r.err
			})
			readings <- r
		}()
	}
	var failed error
	patience := time.After(toolsFirst)
	for left := len(wanted); left > 0; {
		select {
		case r := <-readings:
			left--
			if failed == nil {
				failed = l.take(ctx, r)
			}
			if failed != nil {
				cancel()
			}
		case <-patience:
			if failed == nil {
				late()
			}
		}
	}
	return cmp.Or(failed, ctx.Err())
}

// wanted returns the lists of the topics that the server has, and empties the lists that
// the server no longer has.
func (l *lists) wanted(asked topics) []*listing {
	var wanted []*listing
	for _, one := range l.all() {
		switch topic := topicOf(one.kind); {
		case !l.isHad(one):
			if one.empty() {
				l.changed, l.stale = l.changed|topic, true
			}
		case asked&topic != 0:
			wanted = append(wanted, one)
		}
	}
	if !l.isHad(l.tools) {
		// counts as read: other lists need not wait for it
		l.tools.text, l.offers, l.apps = mcp.RawJSON("[]"), nil, false
	}
	return wanted
}

// take keeps the outcome of one reading. It returns an error only for the tools, or when
// ctx has ended. Where tools that were read before have no answer beside a call, there is
// no error: the server may be busy with the call, which would end with the connection. A
// list that is too long is kept as far as it fits, except that of the tools.
func (l *lists) take(ctx context.Context, r reading) error {
	one, overflow := r.of, errors.Is(r.err, errOverflow)
	excused := r.beside && !one.read.IsZero() && errors.Is(r.err, context.DeadlineExceeded)
	err := l.conn.server.forCaller(ctx, r.err)
	switch {
	case err != nil && (one == l.tools && !excused || ctx.Err() != nil):
		return err
	case err != nil && (!overflow || len(r.raw) == 0):
		if one.fail(l.conn.cfg.Name, err) {
			l.stale = true
			l.conn.cfg.Logger.WarnContext(ctx, "a list cannot be read", "kind", string(one.kind), "error",
				problem(err))
		}
		l.conn.judge(err)
		return nil
	}
	differs, repaired := one.take(l.conn.cfg, r)
	if repaired > 0 {
		l.conn.cfg.Logger.WarnContext(ctx, "definitions held hidden text, which was removed", "kind",
			string(one.kind), "repairs", repaired)
	}
	if !differs {
		l.stale = l.stale || one == l.skills && one.ttl > 0 // it is fresh again
		return nil
	}
	l.changed, l.stale = l.changed|topicOf(one.kind), true
	if overflow {
		one.refuse(l.conn.cfg.Name, "size", errOverflow)
	}
	if one == l.tools {
		l.offers = l.conn.offers(l.tools.items)
		l.apps = bytes.Contains(l.tools.text, []byte(mcp.MetaAppURI))
	}
	return nil
}

// source returns everything that the server offers now, for the catalogue. subscribe is
// what the catalogue calls to follow a resource.
func (l *lists) source(subscribe func(ctx context.Context, user share.User, uri string,
	updated func(uri string), over func()) error,
) registry.Source {
	c := l.conn
	s := registry.Source{
		Name: l.conn.cfg.Name, Prefix: l.conn.cfg.Prefix, Timeout: l.conn.cfg.Timeout, Tools: l.offers,
		Prompts: l.prompts.items, Resources: l.resources.items, Templates: l.templates.items,
		Withheld: l.resources.withheld, Released: l.conn.cfg.Released, Extensions: c.extensions(),
		Reads: c.has("resources") && (!l.resources.none || !l.templates.none),
	}
	for _, one := range l.all() {
		if one.text == nil && l.isHad(one) || l.ask == nil {
			s.Unread = append(s.Unread, one.kind)
		}
	}
	if s.Skills = l.skills.items; l.skills.ttl > 0 {
		s.SkillsFresh = l.skills.read.Add(l.skills.ttl)
	}
	s.Completes = c.has("completions")
	if c.version == mcp.Revision2024 { // that revision has no such capability to declare
		s.Completes = len(s.Prompts) > 0 || len(s.Templates) > 0
	}
	if s.Reads || s.Completes || len(s.Prompts)+len(s.Unread)+len(s.Skills) > 0 {
		s.Use = c.use
	}
	if s.Reads && c.subscribable() {
		s.Subscribe = subscribe
	}
	l.vary(&s)
	return s
}

// status returns what was read, but for what the catalogue has of it. left are the
// definitions that the catalogue refused.
func (l *lists) status(left []registry.Refusal) Status {
	s := Status{Revision: l.conn.version, Refused: slices.Clone(left), Idle: l.idle()}
	for _, one := range l.every() { // what several variants have is told once
		s.Refused = append(s.Refused, registry.Unknown(s.Refused, one.refused)...)
	}
	return s
}

// idle returns those of the released digests that release nothing of what the server
// offers. As long as one of its lists could not be read, there are none: what is in it
// nobody knows. Neither does anybody know what the files of apps hold before they are
// read.
func (l *lists) idle() []string {
	if l.ask == nil || l.apps || l.conn.extensions().Any() {
		return nil
	}
	needed := make(map[string]bool)
	for _, one := range l.every() {
		if one.text == nil && l.isHad(one) {
			return nil
		}
		for _, digest := range one.released {
			needed[digest] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(l.conn.cfg.Released),
		func(digest string) bool { return needed[digest] })
}
