package materialize

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"minsep/internal/store"
	"minsep/manifest"
)

// note records the finished file of a shard, so that a job that begins again does not repeat it.
// The note is a temporary file, which the publication of the index removes.
func note(dir string, shard int, file manifest.File) error {
	_, err := manifest.WriteFile(dir, noteName(shard), manifest.SecretFile, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(file)
	})
	return err
}

// noteName returns the name of a shard's note.
func noteName(shard int) string { return fmt.Sprintf("%sfile-%05d.json", store.TempPrefix, shard) }

// Finished returns the shards that an earlier job left whole in a folder, and their files. A file
// is whole if it has the SHA-256 of its note.
func Finished(ctx context.Context, dir string, shards int) (done []int, files []manifest.File, err error) {
	for shard := range shards {
		b, err := store.ReadFile(ctx, store.Join(dir, noteName(shard)), 1<<16)
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			continue
		}
		var file manifest.File
		if json.Unmarshal(b, &file) != nil || file.Name != manifest.MaterializedName(shard, shards) {
			continue
		}
		if err := file.Check(ctx, dir); err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			continue
		}
		done, files = append(done, shard), append(files, file)
	}
	return done, files, nil
}
