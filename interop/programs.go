//go:build windows

// Package interop names the programs of others that transom is measured with, so that `go mod tidy` keeps their modules and
// `cargo xtask interop` can build them from the module cache. It has no code of its own.
package interop

import (
	_ "github.com/Microsoft/hcsshim/hcn"
)
