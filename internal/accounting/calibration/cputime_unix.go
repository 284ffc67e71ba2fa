//go:build unix

package calibration

import (
	"syscall"
	"time"
)

// processorTime is how long the processors have worked for this process; 0 where that is not known.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
