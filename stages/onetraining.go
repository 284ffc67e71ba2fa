package stages

import (
	"fmt"
	"slices"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/stream"
)

// secretFolder is a folder of batches or noise: by which run and which root key it was made.
type secretFolder struct {
	path  string
	run   stream.RunID
	byKey func(root stream.Root) bool
}

// indexedFolder is a finished folder with its index.
func indexedFolder(path string, ix *manifest.Index) secretFolder {
	return secretFolder{path, ix.RunID, func(root stream.Root) bool {
		return ix.Secret != nil && *ix.Secret == *IndexSecret(root, ix.RunID, store.Base(path))
	}}
}

// IndexSecret keeps the SHA-256 of a secret folder's index from telling its contents: 32
// bytes that only the root key gives, the same for a run that is repeated.
func IndexSecret(root stream.Root, run stream.RunID, folder string) *manifest.Digest {
	secret := manifest.Digest(root.Key(run, [32]byte{}, "index of "+folder).Commitment())
	return &secret
}

// OneTraining refuses batches and noise that are not of the directory's run id, or not made with
// the root key: noise must never serve two sets of batches, nor batches two kinds of noise. Without
// a root key, nil, only the run ids are compared.
func (p Present) OneTraining(root *stream.Root) error {
	for _, s := range p.secrets {
		var differs string
		wayOut := NewDirectory
		switch {
		case p.run == nil:
			differs = fmt.Sprintf("it is of run %v, and run.json, which would say so, is missing", s.run)
		case s.run != p.run.RunID:
			differs = fmt.Sprintf("it is of run %v, run.json is of run %v", s.run, p.run.RunID)
		case root != nil && !s.byKey(*root):
			differs, wayOut = "it was made with another root key", "give that key, or another run directory"
		default:
			continue
		}
		return Disagrees(s.path, []string{differs}, "batches and noise are of one run and one key, and serve one training run: "+wayOut)
	}
	return nil
}

// Of names the folders of batches and noise that were made by one of these runs.
func (p Present) Of(runs []stream.RunID) (folders []string) {
	for _, s := range p.secrets {
		if slices.Contains(runs, s.run) {
			folders = append(folders, store.Base(s.path))
		}
	}
	return folders
}
