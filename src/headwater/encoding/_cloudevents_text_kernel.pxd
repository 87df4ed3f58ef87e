cpdef bint allowed(Py_ssize_t kind, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
cpdef Py_ssize_t slot_of(const unsigned char* p, Py_ssize_t name, Py_ssize_t size) noexcept
cpdef Py_ssize_t kind_of(Py_ssize_t slot) noexcept
cpdef bint names_cloudevents(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
