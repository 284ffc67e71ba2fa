package accounting

// Assumption is something on which a certificate rests, with the place where it is stated or
// proven.
type Assumption struct {
	Text   string `json:"text"`   // in one sentence
	Source string `json:"source"` // a section of docs/formulas.md, and the paper's theorem where it is not ours
}

// The first assumption of the proof is one of these. The assumptions about the training come before
// it.
const (
	sensitivityText = "the sensitivity of the strategy under the participation schema"
	othersText      = "the participations of other examples do not depend on those of the owner: not so, see the reason"
	dominationText  = "vector gradients, chosen adaptively, are dominated by the scalar pair of distributions"
)

var firstOfProof = []string{sensitivityText, othersText, dominationText}
