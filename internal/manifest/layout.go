package manifest

import (
	"strings"

	"minsep/internal/store"
	"minsep/sampling"
)

// Names in a run directory, besides [RunName]: folders with an index, the ledger, and files.
const (
	BoundedFolder    = "bounded"
	StrategyFolder   = "strategy"
	LedgerFolder     = "ledger"
	BatchesFolder    = "batches"
	NoiseFolder      = "noise"
	StatisticsFolder = "statistics" // private statistics: a file for each release
	CertificateFile  = "certificate.json"
	AccountingFile   = "accounting.json" // instead of a certificate: a published accounting that is not proven
	TrainingRecord   = "training.json"   // by the Python package's StepGuard: each training and its number of steps
	LockName         = "lock"            // exists while a command writes to the run directory

	ReportPage = "report.html" // made by minsep report
)

// IgnoreName is the name of the file that keeps the secrets of a run directory out of git. A run's
// first run.json comes with it, on local disks.
const IgnoreName = ".gitignore"

// ignored are the contents of the file: the secrets of a run directory, and names that come and go.
var ignored = "# Secrets of this run, which must not be committed.\n/" + strings.Join([]string{
	BatchesFolder + "/", NoiseFolder + "/", store.TempPrefix + "*", LockName,
}, "\n/") + "\n"

// ReportMark begins every page of minsep report, and identifies it as one.
const ReportMark = `<meta name="generator" content="minsep">`

// Names in the folders of a run directory.
const (
	StrategyFile   = "strategy.json" // in StrategyFolder
	RecipeFile     = "recipe.json"   // in NoiseFolder
	RequestFile    = "request.json"  // in LedgerFolder: the request
	FinishedFolder = "finished"      // in LedgerFolder: finished units that are not in the log yet
	EarlierFolder  = "earlier"       // in LedgerFolder: protocols that were replaced, by hash
)

// Formats of indexes, besides [BoundedFormat] and [BatchesFormat].
const (
	StrategyFormat = "minsep-strategy/1"
	NoiseFormat    = "minsep-noise/1"
)

// BatchesParams are the parameters on which batches depend, besides the key and the examples. The
// index of batches records them, and keys are derived from their hash.
type BatchesParams struct {
	Scheme sampling.Spec `json:"scheme"` // how examples take part
}

// shardParticipations is the intended number of participations in a shard of batches: 16 MB of
// rows.
const shardParticipations = 4 << 20

// BatchShards returns a good number of shards for an expected total number of participations.
func BatchShards(participations float64, steps int) int {
	return max(1, min(steps, int(participations/shardParticipations)+1))
}

// BatchBlocks returns a good number of blocks of rows for an expected number of participations in a
// step: each has at least eight million of them.
func BatchBlocks(perStep float64) int { return max(1, int(perStep/(2*shardParticipations))) }
