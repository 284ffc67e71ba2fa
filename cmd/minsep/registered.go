package main

// Object stores and runners are linked into the command only: each brings the client libraries of a
// cloud.
import (
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	_ "minsep/internal/store/gs" // gs://
	_ "minsep/internal/store/s3" // s3://
)
