package eventlog

import "iter"

// streams are those of one session, by name. Most sessions have one at a time, which
// needs no map: that would be a third of what such a session takes. The zero streams are
// empty.
type streams struct {
	one  *memoryStream            // nil: none, or it has ended
	more map[string]*memoryStream // others; nil: none
}

// find returns the stream of that name, nil if there is none.
func (s *streams) find(name string) *memoryStream {
	if s.one != nil && s.one.name == name {
		return s.one
	}
	return s.more[name]
}

// add adds a stream with a name that is not there.
func (s *streams) add(one *memoryStream) {
	if s.one == nil {
		s.one = one
		return
	}
	if s.more == nil {
		s.more = make(map[string]*memoryStream)
	}
	s.more[one.name] = one
}

// remove takes a stream out.
func (s *streams) remove(one *memoryStream) {
	if s.one == one {
		s.one = nil
		return
	}
	delete(s.more, one.name)
}

// all yields the streams, in any order. One that is yielded may be removed.
func (s *streams) all() iter.Seq[*memoryStream] {
	return func(yield func(*memoryStream) bool) {
		if s.one != nil && !yield(s.one) {
			return
		}
		for _, one := range s.more {
			if !yield(one) {
				return
			}
		}
	}
}

// none tells whether there is no stream.
func (s *streams) none() bool { return s.one == nil && len(s.more) == 0 }
