// Package testrun fixes the run ids of tests, so that bytes that follow from them can be frozen and
// compared. A run directory that is made under such an id says so, and inspections and trainers
// refuse it. Only test files call [Fix]; a test of the module's imports holds that.
package testrun

import "sync/atomic"

// fixed is the id that tests asked for; nil outside of tests.
var fixed atomic.Pointer[[16]byte]

// Fix makes id the run id of every run directory that this process makes from now on. The zero id
// makes them fresh again.
func Fix(id [16]byte) {
	if id == ([16]byte{}) {
		fixed.Store(nil)
		return
	}
	fixed.Store(&id)
}

// ID returns the id that a test has fixed; ok is false outside of tests.
func ID() (id [16]byte, ok bool) {
	if p := fixed.Load(); p != nil {
		return *p, true
	}
	return id, false
}
