cpdef bint allowed(Py_ssize_t kind, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
