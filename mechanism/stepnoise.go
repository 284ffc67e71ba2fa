package mechanism

import "math"

// StepDeviations returns the norms of the rows of C⁻¹, [steps]: the standard deviations of the
// noise that each step adds to its sum of gradients, at noise multiplier 1 and clip norm 1 (F1.2).
// It takes as long as [Strategy.Error].
func (s *Strategy) StepDeviations() ([]float64, error) {
	// The noise in a model that forgets everything in one step is the step's own noise.
	e, err := s.Error(&Workload{Steps: s.Steps, Forgetting: 1})
	if err != nil {
		return nil, err
	}
	for i, v := range e.Variance {
		e.Variance[i] = math.Sqrt(v)
	}
	return e.Variance, nil
}

// StepNoise returns the standard deviation of the noise of one step at noise multiplier 1 and
// clip norm 1 (F1.2). For a Toeplitz strategy it is ‖h‖, with the first column h of C⁻¹: the
// noise of the last step, and of all but the first steps. For others it is the root mean square
// over the steps.
func (s *Strategy) StepNoise() (float64, error) {
	deviations, err := s.StepDeviations()
	if err != nil {
		return 0, err
	}
	if s.IsToeplitz() {
		return deviations[len(deviations)-1], nil
	}
	return math.Sqrt(square(deviations) / float64(len(deviations))), nil
}
