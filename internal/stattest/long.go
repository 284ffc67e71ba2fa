package stattest

import "os"

// Long reports whether MINSEP_LONG is set: tests then take every case and all their draws.
// Otherwise slow tests take a part of them.
func Long() bool { return os.Getenv("MINSEP_LONG") != "" }
