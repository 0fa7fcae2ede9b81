# FFmpeg: encode ten frames of a film, and decode them, in two threads
# needs: ffmpeg
run() {
    $TRACE ffmpeg -nostdin -loglevel error -f lavfi -i testsrc=size=160x120:rate=10:duration=1 \
        -threads 2 -fflags +bitexact -flags +bitexact -c:v mpeg4 film.avi
    $TRACE ffmpeg -nostdin -loglevel error -threads 2 -i film.avi -f framecrc -
}
