package transforms

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/privacy"
	"minsep/sampling"
)

func init() { register.Function1x0(takeSums) }

var takenSums struct {
	sync.Mutex
	all [][]byte
}

func takeSums(b []byte) {
	takenSums.Lock()
	defer takenSums.Unlock()
	takenSums.all = append(takenSums.all, bytes.Clone(b))
}

// TestCertifyOnRunner: samples that workers draw give the certificate of those drawn here.
func TestCertifyOnRunner(t *testing.T) {
	claim := privacy.Claim{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 16, MinSep: 4}}, Strategy: mechanism.Identity(16), Epsilon: 1, Delta: 1e-2, Samples: 30_000}
	here := must.Get(privacy.Certify(t.Context(), claim, nil))(t)
	if len(here.Units) == 0 {
		t.Fatal("the claim needs no samples")
	}
	dir := t.TempDir()
	for name, draw := range map[string]privacy.Draw{
		"OnRunner": OnRunner(dir, beamx.Run),
		"SumLosses": func(ctx context.Context, protocol []byte, units [][]byte) ([][]byte, error) {
			takenSums.all = nil
			p, s := beam.NewPipelineWithRoot()
			beam.ParDo0(s, takeSums, must.Get(SumLosses(s, protocol, beam.CreateList(s, units)))(t))
			err := beamx.Run(ctx, p)
			return takenSums.all, err
		},
	} {
		there, err := privacy.Certify(t.Context(), claim, draw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(here.File, there.File) {
			t.Errorf("%s: another certificate", name)
		}
	}
	must.Fail(t, "no folder", "is given no folder")(privacy.Certify(t.Context(), claim, OnRunner("", beamx.Run)))
}
