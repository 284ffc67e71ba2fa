package montecarlo

import (
	"regexp"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// KernelID names the arithmetic that samples are computed with: samples of one id are equal bit
// for bit wherever they are computed.
func KernelID() string { return kernel.ID() }

// kernelIDs are ids that some machine may have: their last part is a hash of results, which differ
// between processors and compilers.
var kernelIDs = regexp.MustCompile(`^fma/2-[0-9a-f]{8}$`)

// IsKernelID reports whether an id may be that of a kernel on some machine.
func IsKernelID(id string) bool { return kernelIDs.MatchString(id) }

// NewKernel returns a kernel that computes the log ratios of all specs at the same outputs, eight
// samples at a time: one row of kernel.Output.LogRatio for each. The specs must be valid and agree
// in strategy and noise multiplier, on which the outputs depend; whether participations follow a spec
// is the caller's affair.
func NewKernel(specs ...Spec) (*kernel.Kernel, error) {
	check := param.Checker{}
	check.AtLeast("specs", len(specs), 1)
	for i, s := range specs {
		check.Add(s.Validate())
		if i > 0 {
			same := s.Strategy == specs[0].Strategy && s.NoiseMultiplier == specs[0].NoiseMultiplier
			check.Require(same, "spec", i, "must have the strategy and noise multiplier of the first")
		}
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	columns := likelihood.NewColumns(specs[0].Strategy)
	ratios := make([]likelihood.Ratio, len(specs))
	for i, s := range specs {
		var err error
		if ratios[i], err = s.newRatio(columns); err != nil {
			return nil, err
		}
	}
	return kernel.New(columns, specs[0].NoiseMultiplier, ratios...), nil
}
