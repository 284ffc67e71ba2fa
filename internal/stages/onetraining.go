package stages

import (
	"fmt"

	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// secretFolder is a folder of batches or noise, with the run and the root key that made it.
type secretFolder struct {
	path  string
	run   stream.RunID
	byKey func(root stream.Root) bool
}

// indexedFolder returns a finished folder with its index.
func indexedFolder(path string, ix *manifest.Index) secretFolder {
	return secretFolder{path, ix.RunID, func(root stream.Root) bool {
		return ix.Secret != nil && *ix.Secret == *IndexSecret(root, ix.RunID, store.Base(path))
	}}
}

// IndexSecret returns 32 bytes for the index of a secret folder. The index's SHA-256 is public, and
// would tell its contents to whoever guesses them; nobody can guess these bytes without the root
// key. They are the same for a run that is repeated.
func IndexSecret(root stream.Root, run stream.RunID, folder string) *manifest.Digest {
	secret := manifest.Digest(root.Key(run, [32]byte{}, "index of "+folder).Commitment())
	return &secret
}

// OneTraining refuses batches and noise that belong to another run id than the directory's, or were
// made with another root key: noise must never serve two sets of batches, nor batches two kinds of
// noise. With a nil root it compares the run ids only.
func (p Present) OneTraining(root *stream.Root) error {
	for _, s := range p.secrets {
		var differs string
		wayOut := "give another --out"
		switch {
		case p.run == nil:
			differs = fmt.Sprintf(
				"it belongs to run %v, and run.json, which would name that run, is missing",
				s.run,
			)
		case s.run != p.run.RunID:
			differs = fmt.Sprintf("it belongs to run %v, run.json to run %v", s.run, p.run.RunID)
		case root != nil && !s.byKey(*root):
			differs, wayOut = "it was made with another root key", "give that key, or another run directory"
		default:
			continue
		}
		return Disagrees(
			s.path,
			[]string{differs},
			"batches and noise are of one run and one key, and serve one training run: "+wayOut,
		)
	}
	return nil
}
