package manifest

import "minsep/sampling"

// Names in a run directory, besides [RunName]: folders with an index, the ledger, and files.
const (
	BoundedFolder  = "bounded"
	StrategyFolder = "strategy"
	LedgerFolder   = "ledger"
	BatchesFolder  = "batches"
	NoiseFolder    = "noise"
	// MaterializedFolder holds the examples themselves, in the order of the steps.
	MaterializedFolder = "materialized"
	CertificateFile    = "certificate.json"
	AccountingFile     = "accounting.json" // in place of a certificate: a published accounting that is not proven
	TrainingRecord     = "training.json"   // of the Python package's StepGuard: which training has taken how many steps
	LockName           = "lock"            // is there while a command writes in the run directory

	ReportPage       = "report.html"        // that minsep report makes of the directory
	SecretReportPage = "report-secret.html" // the same with secrets
)

// ReportMark is at the beginning of every page of minsep report, by which it is known as one.
const ReportMark = `<meta name="generator" content="minsep">`

// Names in the folders of a run directory.
const (
	StrategyFile   = "strategy.json" // in StrategyFolder
	RecipeFile     = "recipe.json"   // in NoiseFolder
	RequestFile    = "request.json"  // in LedgerFolder: the request
	FinishedFolder = "finished"      // in LedgerFolder: units that are not in the log yet
	EarlierFolder  = "earlier"       // in LedgerFolder: protocols that were replaced, by hash
)

// Formats of indexes, besides [BoundedFormat] and [BatchesFormat].
const (
	StrategyFormat = "minsep-strategy/1"
	NoiseFormat    = "minsep-noise/1"
)

// BatchesParams are the parameters that batches depend on, with the key and the examples. The
// index of batches holds them, and the keys are derived with them.
type BatchesParams struct {
	Scheme sampling.Spec `json:"scheme"` // how examples take part
}

// shardParticipations is the number of participations that a shard of batches is meant to have: 16
// MB of rows.
const shardParticipations = 4 << 20

// BatchShards returns a good number of shards for an expected total number of participations.
func BatchShards(participations float64, steps int) int {
	return max(1, min(steps, int(participations/shardParticipations)+1))
}
