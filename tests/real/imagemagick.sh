# ImageMagick: draw a picture, blur it and resize it
# needs: convert
run() { $TRACE convert -size 150x150 gradient:red-blue -blur 0x3 -resize 70% -depth 8 picture.ppm; }
