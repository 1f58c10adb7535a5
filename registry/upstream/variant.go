package upstream

import (
	"bytes"
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// A server may list other items to clients that declare an extension than to those that
// do not: a tool with a view for hosts of apps, one of text for others. The control
// connection declares all extensions. Of a server that has one on which lists may depend,
// the lists are read once more for each set of such extensions, as a client that declares
// that set would read them:
//
//	server        read by                              for clients that declare
//	modern        the same connection                  each set
//	legacy        a pooled session for each set        each set; with Config.Shared all but none
//
// A child that may be the only one, and a server that is only probed, are not asked
// again. A set whose lists cannot be read keeps those that were read before. Before that
// its clients see whatever the server lists to anybody, which does no harm: extensions
// are no matter of rights, and a client ignores what it does not know.

// dependsOn returns the extensions on which the lists of the server may depend: those
// that it declares and, since not all servers declare it, that of apps if a tool has a
// view.
func (l *lists) dependsOn() mcp.Extensions {
	has := l.conn.extensions()
	if l.apps {
		has = has.With(mcp.ExtensionsNamed(mcp.ExtensionApps))
	}
	return l.conn.cfg.Extensions.Varying(has)
}

// base returns which of the extensions on which lists depend conn declares.
func (l *lists) base() mcp.Extensions {
	if l.conn.bare() {
		return mcp.Extensions{}
	}
	return l.varying
}

// bare tells whether the connection declares nothing: it is a session that serves
// everyone.
func (c *connection) bare() bool { return c.cfg.Shared && mcp.EraOf(c.version) == mcp.Legacy }

// isCommon tells whether all tenants are in one session of the server: in such a one, or
// in that of a modern child.
func (c *connection) isCommon() bool {
	return c.bare() || c.cfg.URL == "" && mcp.EraOf(c.version) == mcp.Modern
}

// declaring returns what a client declares to the server that has of the extensions on
// which lists depend those of the variant, in the place of conn.
func (l *lists) declaring(v *lists) mcp.Object {
	missing := l.varying.Without(v.declared)
	if l.conn.bare() {
		return l.conn.cfg.Extensions.All().Without(missing).Adding(mcp.Object{})
	}
	return l.conn.cfg.everythingBut(missing)
}

// setVariants makes the variants fit the extensions on which lists depend now.
func (l *lists) setVariants() {
	varying := l.dependsOn()
	if varying == l.varying {
		return
	}
	l.varying, l.variants, l.changed, l.stale = varying, nil, everyTopic, true
	for _, set := range varying.Sets() {
		v := newLists(l.conn, nil)
		v.declared = set
		if v.ask = l.conn.peer.as(l.declaring(v)); v.ask != nil && set != l.base() {
			l.variants = append(l.variants, v)
		}
	}
}

// readVariants reads the lists of the topics in asked as clients get them that declare
// other extensions, one set after the other. It calls publish if that takes long. What
// cannot be read is noted in the list; no error ends the connection.
func (l *lists) readVariants(ctx context.Context, asked topics, publish func()) {
	l.setVariants()
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	for _, v := range l.variants {
		topics := asked
		if v.tools.read.IsZero() {
			topics = everyTopic
		}
		err := v.readOwn(limited, topics, publish)
		if err != nil && ctx.Err() == nil && v.tools.fail(l.conn.cfg.Name, err) {
			v.stale = true
			l.conn.cfg.Logger.WarnContext(ctx, "the lists for clients with fewer extensions cannot be read",
				"error", problem(err))
		}
		l.changed, l.stale = l.changed|v.changed, l.stale || v.stale
		v.changed, v.stale = 0, false
	}
}

// isKnown tells whether the tools of a variant were read, so that the others may be shown
// beside them.
func (l *lists) isKnown() bool { return l.tools.text != nil || l.tools.items != nil }

// differs tells whether the variant has other items than l.
func (l *lists) differs(v *lists) bool {
	mine := l.all()
	for i, one := range v.all() {
		if !slices.EqualFunc(one.items, mine[i].items, func(a, b mcp.Object) bool {
			return bytes.Equal(a.JSON(), b.JSON())
		}) {
			return true
		}
	}
	return false
}

// vary adds to a source what the server lists to clients that declare other extensions,
// where that differs.
func (l *lists) vary(s *registry.Source) {
	if !slices.ContainsFunc(l.variants, func(v *lists) bool { return v.isKnown() && l.differs(v) }) {
		return
	}
	s.Varying, s.Base = l.varying, l.base()
	for _, v := range l.variants {
		if !v.isKnown() {
			continue
		}
		variant := registry.Variant{
			Declared: v.declared, Tools: v.offers, Prompts: v.prompts.items, Resources: v.resources.items,
			Templates: v.templates.items, Skills: v.skills.items, Withheld: v.resources.withheld,
		}
		for _, one := range v.all() {
			if one.items == nil && v.isHad(one) {
				variant.Unread = append(variant.Unread, one.kind)
			}
		}
		s.Variants = append(s.Variants, variant)
	}
	l.conn.varies.Store(true)
}
