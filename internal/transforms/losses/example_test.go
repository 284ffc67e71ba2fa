package losses_test

import (
	"context"
	"fmt"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/transforms/losses"
	"minsep/mechanism"
	"minsep/sampling"
)

// One noise multiplier verified through Beam: protocol, ledger, units, certificate.
func ExampleSum() {
	run := accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.08, Steps: 64, MinSep: 4, WarmStart: true}},
		Strategy:            mechanism.Identity(64),
		MaxExamplesPerOwner: 1,
	}
	certificate, err := func() (*accounting.Certificate, error) {
		plan, err := calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-3, NoiseMultiplier: 1.25, CodeVersion: "example"}.Plan(context.Background())
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "ledger")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		l, err := ledger.Create(dir, plan.Protocol)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		encoded, err := plan.Protocol.Encode()
		if err != nil {
			return nil, err
		}
		units := l.Missing(0, losses.UnitSize(64))
		if len(units) > 0 {
			p, s := beam.NewPipelineWithRoot()
			if _, err := losses.Sum(s, losses.Config{Protocol: string(encoded), Dir: dir}, units); err != nil {
				return nil, err
			}
			if _, err := beam.Run(context.Background(), "direct", p); err != nil {
				return nil, err
			}
			if err := losses.Collect(dir, l); err != nil {
				return nil, err
			}
		}
		return l.Certificate()
	}()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: (%g, %g) at noise multiplier %g\n", certificate.Status, certificate.Epsilon, certificate.Delta, certificate.NoiseMultiplier)
	// Output:
	// verified: (2, 0.001) at noise multiplier 1.25
}
