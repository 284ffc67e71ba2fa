package main

// Stores and runners that only a whole program links, since each brings the clients of a cloud.
import (
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	_ "minsep/internal/store/gs" // gs://
	_ "minsep/internal/store/s3" // s3://
)
