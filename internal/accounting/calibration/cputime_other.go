//go:build !unix

package calibration

import "time"

// processorTime is how long the processors have worked for this process: not known here.
func processorTime() time.Duration { return 0 }
