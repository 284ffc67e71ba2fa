package report

// Glossary explains the words of a page, in the order of the alphabet.
var Glossary = []Fact{
	{
		"(ε, δ)-differential privacy",
		"whether one protected unit took part changes the probability of any outcome by at most a factor e^ε, and a further δ",
	},
	{
		"Adjacency",
		"the change between the two training runs that are compared: here the gradients of the protected unit are replaced by zero",
	},
	{
		"Advantage",
		"true positive rate less false positive rate of the best test of whether the unit took part: 0 is guessing, 1 is certainty",
	},
	{"Band", "a diagonal of the strategy: w bands correlate the noise of w successive steps"},
	{"Batch", "the examples of one step. Who is in it is secret"},
	{"Certificate", "certificate.json: the claim, with all that anybody needs to check it against its ledger"},
	{
		"Clip norm ζ",
		"the largest norm that the gradient of one example may have or, where owners take part, the mean gradient of an owner",
	},
	{
		"Delta δ",
		"the probability by which the factor e^ε may be exceeded; it belongs well below one over the number of owners",
	},
	{"DP-SGD", "training with independent noise and Poisson sampling, with which other mechanisms are compared"},
	{
		"Epsilon ε",
		"the exponent of the factor e^ε by which the data of one protected unit may change the probability of an outcome: smaller is more private",
	},
	{"Ledger", "the protocol of a verification, fixed before its first sample, and the sums of its samples"},
	{"Min-sep b", "the least distance, in steps, of two participations of one example"},
	{"Neighbourhood", "of an example: the examples that share an owner with it, and itself"},
	{"Noise multiplier σ", "standard deviation of the noise before it is correlated, in units of the clip norm"},
	{
		"Owner",
		"a user who owns examples; with an owner as the protected unit all of its examples are protected together",
	},
	{"Participation", "an example's presence in the batch of a step"},
	{"Poisson sampling", "each example takes part in each step by a draw of its own"},
	{"RMSE", "root mean square error: the typical size of the noise in a model of the training"},
	{"Scheme", "how examples are drawn for the batches"},
	{
		"Sensitivity",
		"how far the data of one protected unit can move the sums that are released, in units of the clip norm: the noise is in proportion to it",
	},
	{"Strategy C", "the matrix that correlates the noise of the steps: training adds ζσC⁻¹z"},
}
