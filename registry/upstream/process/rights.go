package process

import (
	"fmt"
	"time"
)

// Rights are what a program may do less than its owner. The zero value takes nothing
// away.
type Rights struct {
	User   User
	Limits Limits
}

// User is whom a program runs as, without any supplementary group. The zero value is the
// owner's own user.
type User struct {
	UID, GID uint32 // of the user and of its only group; UID zero, which is root: the owner's own
}

// Limits bound a program and, each for itself, the processes that descend from it. Zero
// in a field: the owner's own limit.
type Limits struct {
	Memory    int64         // bytes that one process may reserve for writing, used or not
	CPU       time.Duration // processor time of one process, in whole seconds, from its start to its end
	Files     int           // that one process may have open at once
	Processes int           // of the user at once, threads included, whoever started them
}

// text returns the rights in the form that parseRights reads.
func (r Rights) text() string {
	return fmt.Sprint(r.User.UID, r.User.GID, r.Limits.Memory, int64(r.Limits.CPU), r.Limits.Files,
		r.Limits.Processes)
}

// parseRights reads what text returned.
func parseRights(text string) (r Rights, err error) {
	_, err = fmt.Sscan(text, &r.User.UID, &r.User.GID, &r.Limits.Memory, (*int64)(&r.Limits.CPU),
		&r.Limits.Files, &r.Limits.Processes)
	return r, err
}
