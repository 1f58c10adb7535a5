package allot

// Use is how many slots of a kind a replica may give out at one moment, and how many of
// them are taken there, of all tenants together. More may be taken than held, as after a
// limit was lowered.
type Use struct{ Granted, Taken int }

// Use returns that of each kind, for display. It asks nobody, and goes through all
// blocks: those of tenants that were in use lately. It locks them one after the other, so
// that no call waits until it has seen all.
func (b *Blocks) Use() map[Kind]Use {
	all := map[Kind]Use{Calls: {}, Streams: {}}
	for _, one := range b.all() {
		b.mu.Lock()
		granted := b.hereLocked(one)
		b.mu.Unlock()
		use := all[one.kind]
		use.Granted += granted
		use.Taken += b.config.Used(one.kind, one.tenant)
		all[one.kind] = use
	}
	return all
}
