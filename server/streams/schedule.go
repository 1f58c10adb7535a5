package streams

import (
	"container/heap"
	"time"
)

// schedule is a heap of flows: at the front the one whose time comes first. The mutex of
// the set guards it.
type schedule []*Flow

var _ heap.Interface = (*schedule)(nil)

// move changes when the time of a flow comes.
func (t *schedule) move(f *Flow, due time.Time) {
	f.due = due
	heap.Fix(t, f.index)
}

// Len implements heap.Interface.
func (t *schedule) Len() int { return len(*t) }

// Less implements heap.Interface.
func (t *schedule) Less(i, j int) bool { return (*t)[i].due.Before((*t)[j].due) }

// Swap implements heap.Interface.
func (t *schedule) Swap(i, j int) {
	of := *t
	of[i], of[j] = of[j], of[i]
	of[i].index, of[j].index = i, j
}

// Push implements heap.Interface.
func (t *schedule) Push(f any) {
	f.(*Flow).index = len(*t)
	*t = append(*t, f.(*Flow))
}

// Pop implements heap.Interface.
func (t *schedule) Pop() any {
	of := *t
	f := of[len(of)-1]
	of[len(of)-1] = nil // or the array would keep it alive
	*t = of[:len(of)-1]
	return f
}
