package allot

import "time"

// Idle has all blocks look as if nobody had asked for them for so long that they lapse.
func (b *Blocks) Idle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.blocks {
		one.touched = time.Now().Add(-2 * idle)
	}
}
