"""Makes pictures.bin: files of pictures, and what Pillow reads of each. Run by hand, with Pillow 13 and numpy.

Of each file: its name, its bytes, width, height, the bytes of convert("RGB"), and those of convert("L") of that.
Grey of 16 bits stands apart: Pillow cuts off what is beyond 255 there, and of 16 bits of colour it takes the upper
8, which is what belongs to both.
"""
import io, random, struct, warnings, zlib

import numpy as np
from PIL import Image

warnings.simplefilter("ignore")
random.seed(6)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def packed(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    out, held, bits = bytearray(), 0, 0
    for s in samples:
        held, bits = held << depth | s, bits + depth
        if bits == 8:
            out.append(held)
            held = bits = 0
    if bits:
        out.append(held << (8 - bits))
    return bytes(out)


def filtered(rows, pixel):
    """Each row by another of PNG's five filters."""
    out, before = bytearray(), None
    for number, row in enumerate(rows):
        kind = number % 5
        before = before or bytes(len(row))
        line = bytearray([kind])
        for i, value in enumerate(row):
            a = row[i - pixel] if i >= pixel else 0
            b = before[i]
            c = before[i - pixel] if i >= pixel else 0
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line.append((value - [0, a, b, (a + b) // 2, near][kind]) & 255)
        out += line
        before = row
    return bytes(out)


def png(width, height, colour, depth, interlaced, extra, palette=None, equal_bytes=False):
    count = CHANNELS[colour]
    top = len(palette) // 3 if colour == 3 else 1 << depth
    values = [[[random.randrange(top) for _ in range(count)] for _ in range(width)] for _ in range(height)]
    if equal_bytes:  # v * 257
        values = [[[v // 257 * 257 for v in one] for one in row] for row in values]
    data = b""
    pixel = max(1, count * depth // 8)
    for x0, y0, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        rows = [packed(sum(row[x0::dx], []), depth) for row in values[y0::dy]]
        if rows and rows[0]:
            data += filtered(rows, pixel)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    body = b"".join(chunk(k, d) for k, d in extra if k not in (b"tRNS", b"bKGD"))
    if palette:
        body += chunk(b"PLTE", palette)
    body += b"".join(chunk(k, d) for k, d in extra if k in (b"tRNS", b"bKGD"))
    packed_rows = zlib.compress(data)
    cut = len(packed_rows) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IDAT", packed_rows[:cut]) +
            chunk(b"IDAT", packed_rows[cut:]) + chunk(b"IEND", b""))


def extras(colour, depth, colours):
    """Chunks that say how the samples are meant, none of which may change one."""
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    transparent = {0: struct.pack(">H", 1), 2: struct.pack(">HHH", 1, 2, 3), 3: bytes(range(0, 250, 50))[:colours]}
    kinds = [
        [],
        [(b"gAMA", struct.pack(">I", 100000))],
        [(b"gAMA", struct.pack(">I", 45455)),
         (b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000))],
        [(b"sRGB", b"\0")],
        [(b"sBIT", bytes([1] * (3 if colour == 3 else CHANNELS[colour])))],
        [(b"iCCP", b"x\0\0" + zlib.compress(profile))],
        [(b"eXIf", b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"), (b"tEXt", b"Author\0nobody"),
         (b"pHYs", struct.pack(">IIB", 1, 2, 0))],
    ]
    if colour in transparent:
        kinds.append([(b"tRNS", transparent[colour])])
        kinds.append([(b"tRNS", transparent[colour]), (b"bKGD", {0: b"\0\1", 2: b"\0\1\0\1\0\1", 3: b"\0"}[colour])])
    return kinds


def read(name, file):
    picture = Image.open(io.BytesIO(file))
    if picture.mode.startswith("I;16") or picture.mode == "I":
        grey = (np.asarray(picture).astype(np.int64) >> 8).astype(np.uint8)
        rgb, one = np.repeat(grey[:, :, None], 3, 2), grey
    else:
        colour = picture.convert("RGB")
        rgb, one = np.asarray(colour), np.asarray(colour.convert("L"))
    return (name, file, picture.width, picture.height, rgb.tobytes(), one.tobytes())


cases = []
for colour, depths in {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}.items():
    for depth in depths:
        for interlaced in (False, True):
            colours = min(1 << depth, 13)
            for number, extra in enumerate(extras(colour, depth, colours)):
                palette = bytes(random.randrange(256) for _ in range(3 * colours)) if colour == 3 else None
                width, height = random.choice([(5, 7), (1, 1), (3, 2), (9, 3), (8, 8), (2, 5)])
                file = png(width, height, colour, depth, interlaced, extra, palette, depth == 16 and number % 2)
                cases.append(read(f"png-{colour}-{depth}{'-interlaced' if interlaced else ''}-{number}", file))


def picture_of(mode, width, height):
    bands = len(Image.new(mode, (1, 1)).getbands())
    base = [[[(17 * x * (b + 1) + 29 * y + 60 * b + random.randrange(40)) % 256 for b in range(bands)]
             for x in range(width)] for y in range(height)]
    array = np.array(base, np.uint8)
    return Image.fromarray(array[:, :, 0] if bands == 1 else array, mode)


def jpeg(mode, width, height, **options):
    out = io.BytesIO()
    picture_of(mode, width, height).save(out, "JPEG", **options)
    return out.getvalue()


number = 0
for mode in ("L", "RGB", "CMYK"):
    for width, height in ((5, 7), (1, 1), (16, 9), (17, 33)):
        for options in ({"quality": 90}, {"quality": 30, "progressive": True}, {"quality": 75, "subsampling": 0},
                        {"quality": 85, "subsampling": 1}, {"quality": 60, "subsampling": 2, "optimize": True},
                        {"quality": 95, "restart_marker_blocks": 1}):
            if mode != "RGB" and "subsampling" in options:
                continue
            cases.append(read(f"jpeg-{mode}-{number}", jpeg(mode, width, height, **options)))
            number += 1
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    cases.append(read(f"jpeg-orientation-{orientation}", jpeg("RGB", 6, 4, quality=90, exif=exif)))
cases.append(read("jpeg-rgb-kept", jpeg("RGB", 7, 5, quality=90, keep_rgb=True)))
for width, height in ((5, 7), (17, 9)):  # the same inks, said to be YCCK
    file = jpeg("CMYK", width, height, quality=90)
    at = file.index(b"Adobe") + 11
    cases.append(read(f"jpeg-ycck-{width}", file[:at] + b"\2" + file[at + 1:]))
    cases.append(read(f"jpeg-inks-0-{width}", file[:at] + b"\0" + file[at + 1:]))

body = struct.pack("<I", len(cases))
for name, file, width, height, rgb, grey in cases:
    body += struct.pack("<IIII", len(name), len(file), width, height) + name.encode() + file + rgb + grey
packed_body = zlib.compress(body, 9)
with open("pictures.bin", "wb") as out:
    out.write(struct.pack("<I", len(body)) + packed_body)
print(len(cases), "files,", len(body), "bytes,", len(packed_body), "packed")
