"""The kernels of `layers.fused_for`, where Triton is there; imported by it alone, on a card."""

# mypy: ignore-errors
# kernels are written in Python and are none

try:
    import triton
    from triton import language as tl
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

    @triton.jit
    def update(point, speed, rate, decay, n, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        p = tl.load(point + at, mask=inside)
        v = tl.load(speed + at, mask=inside) + decay * p
        tl.store(speed + at, v, mask=inside)
        tl.store(point + at, p + tl.load(rate) * v, mask=inside)

    @triton.jit
    def bias_relu(out, bias, rows, width, n, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        which = at // (rows * width) * width + at % width
        value = tl.load(out + at, mask=inside) + tl.load(bias + which, mask=inside)
        tl.store(out + at, tl.maximum(value, 0.0), mask=inside)
