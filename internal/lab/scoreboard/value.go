package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// Values of JSON are nil, bool, string, literal, []any and *members here. Members have an
// order, and may have one name twice: what is sent need not be what a library would
// write.

// literal is JSON text that is written as it stands.
type literal = json.RawMessage

// member is one of an object.
type member struct {
	name  string
	value any
}

// members are an object.
type members []member

func (o *members) value(name string) any {
	for i := range *o {
		if (*o)[i].name == name {
			return (*o)[i].value
		}
	}
	return nil
}

// object returns a member that is an object, and makes it one when it is not.
func (o *members) object(name string) *members {
	inner, ok := o.value(name).(*members)
	if !ok {
		inner = &members{}
		o.set(name, inner)
	}
	return inner
}

// set returns true, for those who tell that they have changed something.
func (o *members) set(name string, value any) bool {
	i := slices.IndexFunc(*o, func(m member) bool { return m.name == name })
	if i < 0 {
		*o = append(*o, member{name, value})
	} else {
		(*o)[i].value = value
	}
	return true
}

// cut takes a member out.
func (o *members) cut(at int) bool {
	*o = slices.Delete(*o, at, at+1)
	return true
}

func (o *members) remove(names ...string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return slices.Contains(names, m.name) })
}

// write returns the JSON text of a value.
func write(value any) string {
	text, _ := json.Marshal(value) // what is one of the above always encodes
	return string(text)
}

// MarshalJSON implements json.Marshaler.
func (o *members) MarshalJSON() ([]byte, error) {
	texts := make([]string, len(*o))
	for i, m := range *o {
		texts[i] = write(m.name) + ":" + write(m.value)
	}
	return json.Marshal(literal("{" + strings.Join(texts, ",") + "}"))
}

// place is where a value stands in a message.
type place struct {
	in   *members // what holds it; nil: an array does
	list []any
	at   int // in what holds it
}

func (p place) set(value any) bool {
	if p.in != nil {
		(*p.in)[p.at].value = value
	} else {
		p.list[p.at] = value
	}
	return true
}

// places lists every value below a value, from outside in.
func places(value any) (all []place) {
	switch v := value.(type) {
	case *members:
		for i, m := range *v {
			all = append(append(all, place{in: v, at: i}), places(m.value)...)
		}
	case []any:
		for i, element := range v {
			all = append(append(all, place{list: v, at: i}), places(element)...)
		}
	}
	return all
}
