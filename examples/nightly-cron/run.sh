# A good night says nothing.
NIGHTLY_ARGS="--provider mock" ./nightly.sh && echo "exit 0"

# A spend cap stops the run after its first answer; the file is whole, and the next night goes on.
NIGHTLY_ARGS="--provider mock --mock-scenario spend-cap --fresh" ./nightly.sh 2>/dev/null || echo "exit $?"
NIGHTLY_ARGS="--provider mock" ./nightly.sh && echo "exit 0"
