package stattest

import "os"

// Long says that tests are to take every case and all the draws they have: the environment variable
// MINSEP_LONG is set. Else those that take long have fewer of them.
func Long() bool { return os.Getenv("MINSEP_LONG") != "" }
