package world

import "errors"

// ErrRefused means that a gateway refused a config and kept the one before.
var ErrRefused = errors.New("the config was refused")
