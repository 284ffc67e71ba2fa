package noise

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"minsep/internal/digest"
	"minsep/internal/param"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
	"minsep/mechanism"
)

// Format of a recipe.
const Format = "minsep-noise-recipe/4"

// MaxCoordinates is the largest number of coordinates.
const MaxCoordinates = 1 << 48

// Config is the noise of one training run.
type Config struct {
	Strategy        *mechanism.Strategy // C, of as many steps as the training run
	Coordinates     int64               // d, 1 to [MaxCoordinates]
	NoiseMultiplier float64             // σ, the deviation of Z in units of ClipNorm, as in the certificate
	ClipNorm        float64             // ζ, the norm to which gradients are clipped, 2⁻⁸⁰ to 2⁸⁰; σ ζ is 2⁻⁹⁶ to 2⁹⁶
	Grid            Grid                // g; 0 for the default

	// Float64 says that the noise is kept and added in float64, and not in float32: the default
	// grid is finer, and a finer one may be given. Nothing else depends on it: with the same Grid
	// the recipe is the same.
	Float64 bool

	Training Training // purpose of the noise
	Words    Words    // the source of random words; "" for [AES128]
}

// Training identifies a training run beyond its noise: which examples there are, and how they take
// part. It is part of [Params], so that training runs with other examples or another sampler share
// no random word. Its zero value is [Unknown] in both fields.
type Training struct {
	// Examples is "bounded " and the SHA-256 of the index of a bounded table, "numbered " and how
	// many there are, or [Unknown].
	Examples string `json:"examples"`
	// Sampler is the compact JSON of a sampling.Spec, held as text so that every implementation
	// hashes the same bytes, or [Unknown].
	Sampler string `json:"sampler"`
}

// Unknown stands in a [Training] if it was not known when the noise was made.
const Unknown = "not known"

// Known reports whether the noise is for one set of examples and one sampler.
func (t Training) Known() bool { return t.Examples != Unknown && t.Sampler != Unknown }

// orUnknown fills the empty fields.
func (t Training) orUnknown() Training {
	if t.Examples == "" {
		t.Examples = Unknown
	}
	if t.Sampler == "" {
		t.Sampler = Unknown
	}
	return t
}

// Params are the parameters that decide all of the noise. Their SHA-256 is part of the key, so that
// a change of one changes every value.
type Params struct {
	Steps           int    `json:"steps"`            // at least 1
	Coordinates     int64  `json:"coordinates"`      // of a gradient, 1 to 2^48
	NoiseMultiplier Hex    `json:"noise_multiplier"` // σ, in units of ClipNorm; positive
	ClipNorm        Hex    `json:"clip_norm"`        // ζ; positive
	Grid            Hex    `json:"grid"`             // 0: the values are not rounded
	NoisingSHA256   Digest `json:"noising_sha256"`   // of the compact JSON of the recipe's noising
	Words           Words  `json:"words"`            // [AES128] or [ChaCha12]

	Training Training `json:"training"` // purpose of the noise
}

// Recipe has all that another implementation needs to make the same noise, except the root key. It
// holds no secret.
type Recipe struct {
	Format        string              `json:"format"`         // [Format]
	RunID         stream.RunID        `json:"run_id"`         // part of the noise key
	Params        Params              `json:"params"`         // part of the noise key, by ParamsSHA256
	ParamsSHA256  Digest              `json:"params_sha256"`  // of the compact JSON of params
	Sensitivity   Hex                 `json:"sensitivity"`    // ζ: the most that the norm of a clipped gradient may be, rounded to the grid or not
	KeyFile       string              `json:"key_file"`       // where the root key was; a reference, never the key
	KeyCommitment Digest              `json:"key_commitment"` // tells whether a root key is the one, and nothing else of it
	Derivation    []string            `json:"derivation"`     // how the values follow, in one line each
	Noising       *Noising            `json:"noising"`        // the coefficients that the values are made with
	Strategy      *mechanism.Strategy `json:"strategy"`       // from which Noising follows

	// StepBytes are the bytes of every step of noise in files ([Recipe.Draw]). Where there are no
	// files, the trainer draws bytes for the steps of each of its starts.
	StepBytes []StepBytes `json:"step_bytes,omitempty"`
}

// StepBytes are random bytes of one step. They are part of the key of its white row, so that steps
// with other bytes share no random word. They are no secret.
type StepBytes [16]byte

// NewStepBytes draws the bytes of a step.
func NewStepBytes() (b StepBytes) {
	rand.Read(b[:]) // which never fails
	return b
}

// MarshalText writes 32 hexadecimal digits.
func (b StepBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b[:]), nil }

// UnmarshalText reads the output of MarshalText.
func (b *StepBytes) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(b)) {
		return fmt.Errorf("step bytes %q: must be %d hexadecimal digits", text, hex.EncodedLen(len(b)))
	}
	_, err := hex.Decode(b[:], text)
	return err
}

// Draw draws bytes for every step, for noise that is written to files.
func (r *Recipe) Draw() {
	r.StepBytes = make([]StepBytes, r.Params.Steps)
	for t := range r.StepBytes {
		r.StepBytes[t] = NewStepBytes()
	}
}

// derivation is the package comment in short, for readers of the file: the part of all recipes,
// then the part of each source of words. Recipes contain these texts, so they are frozen.
var (
	derivationKeys = []string{
		"params_sha256 = SHA-256 of params as compact JSON, training.examples and training.sampler in it: trainings that differ share no key",
		"K = HKDF-SHA256(root key, salt = run_id (16 bytes) || params_sha256 (32 bytes), info = 'noise', 32 bytes); key_commitment = HKDF-SHA256(K, no salt, info = 'commitment', 32 bytes)",
		"bytes[t] = 16 random bytes of step t, drawn at every start of a training for all steps from its checkpoint on; those of noise in files are step_bytes[t]",
	}
	derivationAES = []string{
		"Kn, Kt of step t = first 16 bytes of HKDF-SHA256(K, salt = bytes[t], info = 'normals' and 'tails', 32 bytes): AES-128 keys",
		"block(key, t, c) = AES(key, t || c), 64 bits each, big endian; read as two 64-bit words, little endian; step t from 0; pair c gives coordinates 2c, 2c+1",
		"(w0, w1) = block(Kn, t, c); U = w0 2^-64 if w0 >= 2^52, else 0.b with the bits b of w0 followed by the words of block(Kt, t, c + r 2^48), r = 0, 1, ..., from the first bit that is one 64 bits",
	}
	derivationChaCha = []string{
		"Kn, Kt of step t = HKDF-SHA256(K, salt = bytes[t], info = 'normals' and 'tails', 32 bytes): keys of ChaCha12, RFC 8439's block function with 12 rounds; its state has in words 12 to 15 the number b of the block and the step t, low 32 bits first",
		"block(key, t, c) = 64-bit words 2 (c mod 4) and 2 (c mod 4) + 1 of ChaCha block (key, b = floor(c / 4), t), little endian; step t from 0; pair c gives coordinates 2c, 2c+1",
		"(w0, w1) = block(Kn, t, c); U = w0 2^-64 if w0 >= 2^40, else 0.b with the bits b of w0 followed by the words of block(Kt, t, c + r 2^48), r = 0, 1, ..., from the first bit that is one 64 bits",
		"every operation is rounded to double precision, a product before it is added, in the order that is written here: every program that does so makes the same bits",
		fmt.Sprintf(
			"U = 2^k m, m in [sqrt(1/2), sqrt(2)), U having been rounded: s = (m - 1) / (m + 1), q = s s, -2 ln U = (-k) %x - ((s q) M(q) + 4 s); y = x x, sin(pi x / 4) = x S(y), cos(pi x / 4) = C(y)",
			twoLn2,
		),
		fmt.Sprintf(
			"M, S, C = polynomials by Horner's rule, coefficients from the lowest degree: M %x; S %x; C %x",
			logCoef,
			sinCoef,
			cosCoef,
		),
	}
	derivationValues = []string{
		"x = ((w1 >> 12) + 1/2) 2^-52; cs, sn = cos, sin(pi x / 4); swapped if bit 0 of w1; cs negated if bit 1; sn negated if bit 2",
		"normals z[t, 2c], z[t, 2c+1] = sqrt(-2 ln U) cs, sqrt(-2 ln U) sn",
		"feedback: u[t] = gain[t] z[t] + sum_j feedback[t][j-1] u[t-j]; filter: u[t] = sum_j filter[j] z[t-j]; scales: u[t] = z[t] - sum_m scales[m] s_m, then s_m = decays[m] s_m + u[t]",
	}
)

// onGrid and offGrid end the derivation, with a grid and without.
var (
	onGrid = []string{
		"value = u[t] (noise_multiplier clip_norm row_scale[t]), rounded to the nearest multiple of grid, ties to even multiples",
		"the trainer clips each gradient to clip_norm, which is the sensitivity, rounds each of its coordinates toward zero to a multiple of grid, sums them without rounding, and adds the noise once",
	}
	offGrid = []string{
		"value = u[t] (noise_multiplier clip_norm row_scale[t]) in double precision; grid is 0: it is not rounded to one; files of float32 have the nearest float32 of it, ties to even; every zero is positive",
		"the trainer clips each gradient to clip_norm, which is the sensitivity, sums them, and adds the noise once; THE FLOATING-POINT CHANNEL IS OPEN: the low bits of a released sum can tell what was summed, which no certificate covers",
	}
)

// derivationFor returns the derivation of a recipe with a grid; 0 stands for none.
func derivationFor(words Words, grid float64) []string {
	ofWords, rounded := derivationAES, onGrid
	if words == ChaCha12 {
		ofWords = derivationChaCha
	}
	if grid == 0 {
		rounded = offGrid
	}
	return slices.Concat(derivationKeys, ofWords, derivationValues, rounded)
}

// Digest is a SHA-256, 64 hexadecimal digits in JSON.
type Digest = digest.SHA256

// digestJSON returns the SHA-256 of v as compact JSON.
func digestJSON(v any) (Digest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(b), nil
}

// GrowthError is a strategy with an inverse that grows so much that no grid serves all steps:
// some step's noise is more than 2²⁰ times σ ζ.
type GrowthError struct {
	Step   int     // of the largest deviation, from 0
	Growth float64 // that deviation in units of σ ζ, above 2²⁰
}

// Error names the step and its growth.
func (e *GrowthError) Error() string {
	return fmt.Sprintf(
		"strategy: the inverse is unstable: the noise of step %d is %.3g times the noise of independent steps",
		e.Step,
		e.Growth,
	)
}

// NewRecipe returns the recipe of a training run, except for its run and its key: see
// [Recipe.Bind].
func NewRecipe(c Config) (*Recipe, error) {
	check := param.Checker{}
	check.Positive("noise multiplier", c.NoiseMultiplier)
	ok, rule := ValidClipNorm(c.ClipNorm)
	check.Require(ok, "clip norm", c.ClipNorm, rule)
	check.Require(
		c.Coordinates >= 1 && c.Coordinates <= MaxCoordinates,
		"coordinates",
		c.Coordinates,
		"must be 1 to 2^48",
	)
	scale := c.NoiseMultiplier * c.ClipNorm
	if check.Err() == nil {
		check.Requiref(scale >= 1/maxScale && scale <= maxScale, "noise multiplier", c.NoiseMultiplier,
			"times the clip norm, %v, must be 2^-96 to 2^96, which is 1.3e-29 to 7.9e28", c.ClipNorm)
	}
	check.Require(c.Grid.Valid(), "grid", float64(c.Grid), `must be a power of two, or "none"`)
	check.Require(c.Strategy != nil, "strategy", "nil", "must be given")
	words, err := ParseWords(string(c.Words))
	check.Add(err)
	if check.Err() != nil {
		return nil, check.Err()
	}
	noising, err := NewNoising(c.Strategy)
	if err != nil {
		return nil, err
	}
	grid, err := chooseGrid(scale, c)
	if err != nil {
		return nil, err
	}
	r := &Recipe{
		Format: Format,
		Params: Params{
			Steps: c.Strategy.Steps, Coordinates: c.Coordinates,
			NoiseMultiplier: Hex(c.NoiseMultiplier), ClipNorm: Hex(c.ClipNorm), Grid: Hex(grid),
			Training: c.Training.orUnknown(), Words: words,
		},
		Sensitivity: Hex(c.ClipNorm),
		Derivation:  derivationFor(words, grid),
		Noising:     noising,
		Strategy:    c.Strategy,
	}
	if r.Params.NoisingSHA256, err = digestJSON(noising); err != nil {
		return nil, err
	}
	r.ParamsSHA256, err = digestJSON(r.Params)
	return r, err
}

// NoisingSHA256 returns the digest in [Params]: it identifies the noise of a strategy, whatever its
// kind is called.
func NoisingSHA256(s *mechanism.Strategy) (Digest, error) {
	n, err := NewNoising(s)
	if err != nil {
		return Digest{}, err
	}
	return digestJSON(n)
}

// SetTraining sets the training of a recipe that was made before its training was known. The key is
// another one: [Recipe.Bind] comes after it.
func (r *Recipe) SetTraining(t Training) (err error) {
	r.Params.Training = t.orUnknown()
	r.ParamsSHA256, err = digestJSON(r.Params)
	return err
}

// KeyPurpose is the purpose of the noise key.
const KeyPurpose = "noise"

// Key derives the noise key of a run from the root key. Only the parameters of r matter, not
// the fields that Bind sets.
func (r *Recipe) Key(root stream.Root, run stream.RunID) stream.Key {
	return root.Key(run, r.ParamsSHA256, KeyPurpose)
}

// Bind sets the run, the commitment to its key and the file of the root key.
func (r *Recipe) Bind(root stream.Root, run stream.RunID, keyFile string) {
	r.RunID, r.KeyFile, r.KeyCommitment = run, keyFile, r.Key(root, run).Commitment()
}

// ErrKey says that a key is not the one that a recipe names.
var ErrKey = errors.New("the key is not the one that the recipe was made with")

// Write writes r as indented JSON.
func (r *Recipe) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Read reads a recipe and checks all that it says: format, hashes, ranges, and that the
// coefficients are the strategy's. It refuses unknown fields and anything behind the end.
func Read(rd io.Reader) (*Recipe, error) {
	r := new(Recipe)
	text, err := io.ReadAll(rd)
	if err == nil {
		err = strictjson.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("recipe: format %q: this version reads %q", r.Format, Format)
	}
	if r.Strategy == nil || r.Noising == nil {
		return nil, errors.New("recipe: has no strategy or no noising")
	}
	if r.Strategy.Steps != r.Params.Steps {
		return nil, fmt.Errorf("recipe: %d steps with a strategy of %d", r.Params.Steps, r.Strategy.Steps)
	}
	if n := len(r.StepBytes); n != 0 && n != r.Params.Steps {
		return nil, fmt.Errorf("recipe: bytes of %d steps: must be none, or those of all %d", n, r.Params.Steps)
	}
	p := r.Params
	if p.Grid < 0 {
		return nil, errors.New("recipe: grid: must be above 0, or 0 for values that are not rounded")
	}
	want, err := NewRecipe(
		Config{Strategy: r.Strategy, Coordinates: p.Coordinates, NoiseMultiplier: float64(p.NoiseMultiplier),
			ClipNorm: float64(p.ClipNorm), Grid: r.Grid(), Float64: true, Training: p.Training, Words: p.Words},
	)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(r.Noising, want.Noising) || r.Sensitivity != want.Sensitivity ||
		!slices.Equal(r.Derivation, want.Derivation) {
		return nil, errors.New(
			"recipe: its coefficients, sensitivity or derivation do not belong to its strategy and parameters",
		)
	}
	noising, err := digestJSON(r.Noising)
	if err != nil {
		return nil, err
	}
	params, err := digestJSON(p)
	if err != nil {
		return nil, err
	}
	if p.Words != want.Params.Words || noising != p.NoisingSHA256 || params != r.ParamsSHA256 {
		return nil, errors.New("recipe: a SHA-256 does not match its contents")
	}
	return r, nil
}

// SHA256 returns the digest of r as [Recipe.Write] writes it.
func (r *Recipe) SHA256() (Digest, error) {
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(b.Bytes()), nil
}
