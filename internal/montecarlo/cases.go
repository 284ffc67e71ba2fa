package montecarlo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
	"minsep/sampling"
)

// caseFile is one case of a file of outputs to evaluate. Which fields a case needs depends on its
// scheme; steps of y are 0-based.
type caseFile struct {
	Scheme     string      `json:"scheme"`
	Start      string      `json:"start"` // "cold" or "warm"
	Steps      int         `json:"n"`
	MinSep     int         `json:"b"`
	Epoch      int         `json:"epoch"` // of epoch_min_sep and rotation
	Prob       float64     `json:"p"`
	ProbCyclic float64     `json:"p_cyclic"`
	Sigma      float64     `json:"sigma"`
	Column     []float64   `json:"c"` // first column of a Toeplitz C, zeros beyond
	Matrix     [][]float64 `json:"C"` // lower triangular, rows
	Examples   int         `json:"k_u"`
	MaxBatch   int         `json:"truncated_batch_size"`
	Counts     [][]int     `json:"rest_batch_sizes"` // a row for each y
	Used       *float64    `json:"rho"`              // of epoch_min_sep: 1 or left out
	Y          [][]float64 `json:"y"`
}

// caseScheme is a scheme name of a case file: the fields that it needs besides n, sigma, y, b, and c or
// C, and its likelihood ratio.
type caseScheme struct {
	fields []string
	ratio  func(c caseFile, columns *likelihood.Columns) (likelihood.Ratio, error)
}

// caseSchemes are those of a law (b is its min-sep or period), of several examples, and others.
var caseSchemes = map[string]caseScheme{
	"b_min_sep":           {[]string{"start", "p"}, byLaw(caseFile.bMinSep, 1)},
	"b_min_sep_general_C": {[]string{"start", "p"}, byLaw(caseFile.bMinSep, 1)},
	"b_min_sep_truncated": {
		[]string{"start", "p", "truncated_batch_size", "rest_batch_sizes"},
		truncated,
	},
	"independent_b_min_sep_two_examples": {[]string{"start", "p", "k_u"}, byLaw(caseFile.bMinSep, 2)},
	"epoch_min_sep":                      {[]string{"epoch"}, byLaw(caseFile.epochMinSep, 1)},
	"epoch_min_sep_two_examples":         {[]string{"epoch", "k_u"}, byLaw(caseFile.epochMinSep, 2)},
	"rotation": {
		[]string{"epoch"},
		byLaw(
			func(c caseFile) sampling.Scheme { return sampling.Rotation{Steps: c.Steps, EpochSteps: c.Epoch} },
			1,
		),
	},
	"balls_in_bins": {
		nil,
		byLaw(
			func(c caseFile) sampling.Scheme { return sampling.BallsInBins{Steps: c.Steps, Period: c.MinSep} },
			1,
		),
	},
	"cyclic_poisson_shift0": {
		[]string{"p_cyclic"},
		byLaw(func(c caseFile) sampling.Scheme { return c.cyclic(false) }, 1),
	},
	"cyclic_poisson_random_shift": {
		[]string{"p_cyclic"},
		byLaw(func(c caseFile) sampling.Scheme { return c.cyclic(true) }, 1),
	},
	"multi_attribution_alg3_thm6.1": {[]string{"start", "p", "k_u"}, published},
}

func (c caseFile) bMinSep() sampling.Scheme {
	return sampling.BMinSep{Prob: c.Prob, Steps: c.Steps, MinSep: c.MinSep, WarmStart: c.Start == "warm"}
}

func (c caseFile) epochMinSep() sampling.Scheme {
	return sampling.EpochMinSep{Steps: c.Steps, MinSep: c.MinSep, EpochSteps: c.Epoch}
}

func (c caseFile) cyclic(secret bool) sampling.Scheme {
	return sampling.CyclicPoisson{Prob: c.ProbCyclic, Steps: c.Steps, MinSep: c.MinSep, SecretPartition: secret}
}

// byLaw is the ratio of a number of examples of a scheme's law.
func byLaw(
	scheme func(c caseFile) sampling.Scheme,
	examples int,
) func(caseFile, *likelihood.Columns) (likelihood.Ratio, error) {
	return func(c caseFile, columns *likelihood.Columns) (likelihood.Ratio, error) {
		check := param.Checker{}
		check.Require(max(1, c.Examples) == examples, "k_u", c.Examples, fmt.Sprintf("must be %d", examples))
		check.Require(
			c.Used == nil || *c.Used == 1,
			"rho",
			c.Used,
			"must be 1: no loss is known for slots that are used with a probability",
		)
		check.Add(scheme(c).Validate())
		if err := check.Err(); err != nil {
			return nil, err
		}
		table, err := sampling.TableOf(scheme(c))
		if err != nil {
			return nil, err
		}
		if examples > 1 {
			return likelihood.NewExamples(table, columns, c.factor(), examples), nil
		}
		return likelihood.NewPoints(table, columns, c.factor())
	}
}

func (c caseFile) factor() float64 { return 1 / (c.Sigma * c.Sigma) }

func truncated(c caseFile, columns *likelihood.Columns) (likelihood.Ratio, error) {
	check := param.Checker{}
	check.AtLeast("truncated_batch_size", c.MaxBatch, 1)
	check.Require(
		len(c.Counts) == len(c.Y),
		"rest_batch_sizes",
		len(c.Counts),
		fmt.Sprintf("must be as many as y, %d", len(c.Y)),
	)
	for k, counts := range c.Counts {
		check.Require(
			len(counts) == c.Steps,
			fmt.Sprintf("rest_batch_sizes[%d]", k),
			len(counts),
			fmt.Sprintf("must be one a step, %d", c.Steps),
		)
		for i, count := range counts {
			check.AtLeast(fmt.Sprintf("rest_batch_sizes[%d][%d]", k, i), count, 0)
		}
	}
	check.Require(
		columns.Bands <= c.MinSep,
		"bands",
		columns.Bands,
		fmt.Sprintf("must be at most b, %d, for truncated batches", c.MinSep),
	)
	check.Add(c.bMinSep().Validate())
	if err := check.Err(); err != nil {
		return nil, err
	}
	table, err := sampling.TableOf(c.bMinSep())
	if err != nil {
		return nil, err
	}
	return likelihood.NewTruncated(table, columns, c.factor(), c.MaxBatch)
}

// published is the ratio of Algorithm 3 as it was published, from a cold start (F4.1).
func published(c caseFile, columns *likelihood.Columns) (likelihood.Ratio, error) {
	s := sampling.MultiOwner{Prob: c.Prob, Steps: c.Steps, MinSep: c.MinSep}
	check := param.Checker{}
	check.Require(
		c.Start == "cold",
		"start",
		c.Start,
		"must be cold for the published distribution of Algorithm 3",
	)
	check.Require(
		c.Examples >= 1 && c.Examples <= MaxPerOwner,
		"k_u",
		c.Examples,
		fmt.Sprintf("must be from 1 to %d", MaxPerOwner),
	)
	check.Require(
		columns.Bands <= c.MinSep,
		"bands",
		columns.Bands,
		fmt.Sprintf("must be at most b, %d, for Algorithm 3", c.MinSep),
	)
	check.Add(s.Validate())
	if err := check.Err(); err != nil {
		return nil, err
	}
	return likelihood.NewPublishedOwner(s, columns, c.Examples, c.factor())
}

// prepare checks a case, and returns its ratio and columns.
func (c caseFile) prepare(has func(field string) bool) (likelihood.Ratio, *likelihood.Columns, error) {
	check := param.Checker{}
	kind, known := caseSchemes[c.Scheme]
	if !known {
		return nil, nil, &param.Error{
			Param: "scheme",
			Value: c.Scheme,
			Rule:  "must be one of " + fmt.Sprint(sortedSchemes()),
		}
	}
	needed := append([]string{"n", "sigma", "y"}, kind.fields...)
	if c.Scheme != "rotation" {
		needed = append(needed, "b")
	}
	if !has("C") {
		needed = append(needed, "c")
	}
	for _, field := range needed {
		check.Require(has(field), "field", field, "is needed for "+c.Scheme)
	}
	if slices.Contains(needed, "start") {
		check.Require(c.Start == "cold" || c.Start == "warm", "start", c.Start, "must be cold or warm")
	}
	check.Positive("sigma", c.Sigma)
	check.Require(
		c.Steps >= 1 && c.Steps <= sampling.MaxSteps,
		"n",
		c.Steps,
		fmt.Sprintf("must be from 1 to %d", sampling.MaxSteps),
	)
	check.Require(len(c.Y) > 0, "y", len(c.Y), "must hold at least one output")
	for i, y := range c.Y { // before anything of n entries is made
		check.Require(
			len(y) == c.Steps,
			fmt.Sprintf("length of y[%d]", i),
			len(y),
			fmt.Sprintf("must be n, %d", c.Steps),
		)
	}
	if err := check.Err(); err != nil {
		return nil, nil, err
	}
	columns := c.columns(&check, has("C"))
	if err := check.Err(); err != nil {
		return nil, nil, err
	}
	Spec{NoiseMultiplier: c.Sigma}.checkColumns(&check, columns)
	if err := check.Err(); err != nil {
		return nil, nil, err
	}
	ratio, err := kind.ratio(c, columns)
	return ratio, columns, err
}

func sortedSchemes() []string {
	var names []string
	for name := range caseSchemes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// columns reads c or C.
func (c caseFile) columns(check *param.Checker, matrix bool) *likelihood.Columns {
	if !matrix {
		check.Require(
			len(c.Column) >= 1 && c.Column[0] > 0,
			"c",
			len(c.Column),
			"must have at least one entry and begin with a positive one",
		)
		return likelihood.Toeplitz(max(c.Steps, 0), c.Column)
	}
	check.Require(len(c.Matrix) == c.Steps, "rows of C", len(c.Matrix), fmt.Sprintf("must be n, %d", c.Steps))
	columns := make([][]float64, len(c.Matrix))
	for i, row := range c.Matrix {
		if len(row) != len(c.Matrix) {
			check.Require(
				false,
				fmt.Sprintf("length of row %d of C", i),
				len(row),
				fmt.Sprintf("must be n, %d", c.Steps),
			)
			return nil
		}
		check.Require(row[i] > 0, fmt.Sprintf("C[%d][%d]", i, i), row[i], "must be positive")
		for j, v := range row {
			if j > i {
				check.Require(v == 0, fmt.Sprintf("C[%d][%d]", i, j), v, "must be 0: C is lower triangular")
				continue
			}
			columns[j] = append(columns[j], v)
		}
	}
	for j, column := range columns { // zeros at the end are no bands
		for len(column) > 1 && column[len(column)-1] == 0 {
			column = column[:len(column)-1]
		}
		columns[j] = column
	}
	return likelihood.General(columns)
}

// logLoss evaluates every y of a case.
func (c caseFile) logLoss(has func(field string) bool) ([]float64, error) {
	ratio, columns, err := c.prepare(has)
	if err != nil {
		return nil, err
	}
	losses := make([]float64, len(c.Y))
	for i, y := range c.Y {
		if err := checkOutput(y, c.Steps); err != nil {
			return nil, fmt.Errorf("y[%d]: %w", i, err)
		}
		if t, ok := ratio.(*likelihood.Truncated); ok {
			t.Counts = c.Counts[i]
		}
		if losses[i], err = checkLoss(likelihood.LogRatio(ratio, columns, c.Sigma, y)); err != nil {
			return nil, fmt.Errorf("y[%d]: %w", i, err)
		}
	}
	return losses, nil
}

// EvaluateCases takes a JSON object with a list "cases" of outputs y and returns it with `log_loss`
// of every case set to the values of ln P(y)/Q(y). Everything else in it is kept as it is. It
// reports the faults of all cases.
func EvaluateCases(data []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("must be JSON, an object with a list of cases: %w", err)
	}
	var cases []map[string]json.RawMessage
	if file["cases"] == nil {
		return nil, &param.Error{Param: "cases", Rule: "must be there: the file is an object with a list of cases"}
	}
	if err := json.Unmarshal(file["cases"], &cases); err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	var faults []error
	for i, fields := range cases {
		losses, err := evaluateCase(fields)
		if err != nil {
			faults = append(faults, fmt.Errorf("case %d: %w", i, err))
			continue
		}
		if fields["log_loss"], err = json.Marshal(losses); err != nil {
			return nil, err
		}
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	var err error
	if file["cases"], err = json.Marshal(cases); err != nil {
		return nil, err
	}
	return json.MarshalIndent(file, "", " ")
}

func evaluateCase(fields map[string]json.RawMessage) ([]float64, error) {
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var c caseFile
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("loss: %w", err)
	}
	return c.logLoss(func(field string) bool { return fields[field] != nil && string(fields[field]) != "null" })
}
