package pipelines_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// TestFormNeedsParallelism asks Flink, which holds what a task passes on, for more than it can
// hold.
func TestFormNeedsParallelism(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	must.Do(t, stream.CreateKeyFile(key))
	form := func(runner string, steps int) error {
		f := pipelines.Form{Examples: 100_000_000, Params: sampling.Params{Scheme: "b-min-sep", Steps: steps, MinSep: 16, BatchSize: 20000}}
		_, err := f.Run(t.Context(), pipelines.Options{Runner: runner, Out: filepath.Join(t.TempDir(), "run"), KeyFile: key, DryRun: true})
		return err
	}
	var bad *param.Error
	if err := form("flink", 7200); !errors.As(err, &bad) || bad.Param != "parallelism" || !strings.Contains(err.Error(), "at least 3 on flink") {
		t.Errorf("1.44e8 participations: %v", err)
	}
	for runner, steps := range map[string]int{"flink": 3000, "direct": 7200, "prism": 7200} {
		if err := form(runner, steps); err != nil {
			t.Errorf("%s, %d steps: %v", runner, steps, err)
		}
	}
}
