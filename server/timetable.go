package server

import (
	"container/heap"
	"time"
)

// timetable is a heap of flows: at the front the one whose time comes first. The mutex of
// the flows guards it.
type timetable []*flow

var _ heap.Interface = (*timetable)(nil)

// add enters a flow.
func (t *timetable) add(f *flow, due time.Time) {
	f.due = due
	heap.Push(t, f)
}

// move changes when the time of a flow comes.
func (t *timetable) move(f *flow, due time.Time) {
	f.due = due
	heap.Fix(t, f.index)
}

// remove takes a flow out.
func (t *timetable) remove(f *flow) { heap.Remove(t, f.index) }

// Len implements heap.Interface.
func (t *timetable) Len() int { return len(*t) }

// Less implements heap.Interface.
func (t *timetable) Less(i, j int) bool { return (*t)[i].due.Before((*t)[j].due) }

// Swap implements heap.Interface.
func (t *timetable) Swap(i, j int) {
	of := *t
	of[i], of[j] = of[j], of[i]
	of[i].index, of[j].index = i, j
}

// Push implements heap.Interface.
func (t *timetable) Push(f any) {
	f.(*flow).index = len(*t)
	*t = append(*t, f.(*flow))
}

// Pop implements heap.Interface.
func (t *timetable) Pop() any {
	of := *t
	f := of[len(of)-1]
	of[len(of)-1] = nil // or the array would keep it alive
	*t = of[:len(of)-1]
	return f
}
